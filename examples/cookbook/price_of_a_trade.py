"""What was each trade worth at the latest price before it, if that is no older than a minute?"""

from streams import prices_and_trades, show

import slackwater as sw

QUERY = """
    SELECT t.symbol, t.shares, p.price, t.shares * p.price AS worth, t.ts - p.ts AS age_us
    FROM trades t ASOF JOIN prices p MATCH_CONDITION (t.ts >= p.ts) ON p.symbol = t.symbol WITHIN 1 MINUTE
    WITH DELAY 5 SECONDS
"""

answer = sw.replay(QUERY, prices_and_trades())
show(answer.results.to_pylist()[:3])
ages = answer.results["age_us"].to_pylist()
print(f"{len(ages)} trades, prices {sum(ages) / len(ages) / 1e6:.1f} s old on average")

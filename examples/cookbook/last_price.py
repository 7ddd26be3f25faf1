"""What were the first and the last price of each symbol a minute? By the time of events, whatever arrives last."""

from streams import prices_and_trades, show

import slackwater as sw

QUERY = """
    SELECT symbol, FIRST(price) AS opened, MAX(price) AS high, MIN(price) AS low, LAST(price) AS closed
    FROM prices [1 MINUTE] GROUP BY symbol
    WITH DELAY 10 SECONDS
"""

answer = sw.replay(QUERY, {"prices": prices_and_trades()["prices"]})
show(answer.results.to_pylist()[:3])
print(f"{answer.results.num_rows} rows, {answer.late['prices'].num_rows} prices came late")

"""Which fixed delay would find 99 % of the pairs, here and with `withWatermark` of Spark? No query runs for this."""

from streams import impressions_and_clicks

import slackwater as sw

QUERY = """
    SELECT i.user, i.ad FROM impressions i JOIN clicks c
      ON c.user = i.user AND c.ad = i.ad AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 30 SECONDS
"""

advice = sw.advise(QUERY, **impressions_and_clicks(), for_spark=True)
print(advice)
for share in (0.9, 0.95, 0.99):
    print(f"{share:.0%} of the pairs take {advice.curve.least(share) / 1e6:.1f} s")

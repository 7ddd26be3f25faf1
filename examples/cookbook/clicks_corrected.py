"""How many clicks has each ad per five minutes, soon, and exactly once late rows have come? The last row of a key is
true, so a table by key ends up with the whole answer.
"""

from streams import impressions_and_clicks, show

import slackwater as sw

QUERY = """
    SELECT ad, COUNT(*) AS clicks
    FROM (SELECT i.ad AS ad FROM impressions i JOIN clicks c
          ON c.user = i.user AND c.ad = i.ad AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 30 SECONDS) j [5 MINUTES]
    GROUP BY ad
    EMIT IN ORDER WITH CORRECTIONS FOR 10 MINUTES WITH RECALL 0.9 OVER 1 MINUTE
"""

answer = sw.replay(QUERY, impressions_and_clicks())
table = {}
for row in answer.results.to_pylist():
    table[row["window_start"], row["ad"]] = row  # delete the key instead where _change is "delete"
show(list(table.values())[:3])
print(f"{len(table)} rows by key, {answer.report['amended']} corrections of them")

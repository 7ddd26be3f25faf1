"""Which ads were clicked within 30 seconds, at once and in no order? The target says how long state is kept."""

from streams import impressions_and_clicks, show

import slackwater as sw

QUERY = """
    SELECT i.user, i.ad, i.ts AS shown, c.ts AS clicked
    FROM impressions i JOIN clicks c
      ON c.user = i.user AND c.ad = i.ad AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 30 SECONDS
    EMIT ON ARRIVAL WITH RECALL 0.95 OVER 1 MINUTE
"""

answer = sw.replay(QUERY, impressions_and_clicks())
show(answer.results.to_pylist()[:3])
recall, waited = answer.report["measured_quality"]["measured"], answer.report["latency_ms"]["p50"] / 1000
print(f"{answer.results.num_rows} pairs, measured recall {recall:.3f}; half of them waited at most {waited:.1f} s")

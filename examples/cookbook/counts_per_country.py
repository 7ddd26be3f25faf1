"""How many pages a minute does each country look at? Off by at most 2 %, in 95 % of the minutes."""

from streams import show, visits

import slackwater as sw

QUERY = """
    SELECT window.start AS minute, country, COUNT(*) AS pages
    FROM visits GROUP BY window(ts, '1 minute'), country
    WITH ERROR 2% CONFIDENCE 95%
"""

answer = sw.replay(QUERY, {"visits": visits()})
show([{name: row[name] for name in ("minute", "country", "pages")} for row in answer.results.to_pylist()[:3]])
kept, slack = answer.report["measured_quality"]["measured"], answer.report["slack_ms"]["avg"] / 1000
print(f"{answer.results.num_rows} rows; {kept:.1%} of the minutes are off by at most 2 %, slack {slack:.1f} s")

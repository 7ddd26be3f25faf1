"""Who looks at the most pages? The three first of every country and five minutes; of equal ones, the first by name."""

from streams import show, visits

import slackwater as sw

QUERY = """
    SELECT window.end AS at, country, user, COUNT(*) AS pages,
           ROW_NUMBER() OVER (PARTITION BY window, country ORDER BY COUNT(*) DESC, user) AS place
    FROM visits GROUP BY window(ts, '5 minutes'), country, user
    QUALIFY place <= 3
    WITH DELAY 1 MINUTE
"""

answer = sw.replay(QUERY, {"visits": visits()})
show(answer.results.select(["at", "country", "place", "user", "pages"]).to_pylist()[:6])
late = sum(table.num_rows for table in answer.late.values())
print(f"{answer.results.num_rows} rows, {late} visits came too late to be counted")

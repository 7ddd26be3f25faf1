"""How many pages does each country see in ten minutes, when some messages are sent twice? Each message counts once."""

from streams import show, visits

import slackwater as sw

QUERY = """
    SELECT country, COUNT(*) AS pages
    FROM (SELECT DISTINCT id, country FROM visits [RANGE 5 MINUTES]) once [10 MINUTES]
    GROUP BY country
    WITH DELAY 1 MINUTE
"""

sent = visits(doubled=0.1)
answer = sw.replay(QUERY, {"visits": sent})
show(answer.results.to_pylist()[:3])
pages, late = sum(answer.results["pages"].to_pylist()), answer.late["visits"].num_rows
print(f"{sent.num_rows} messages about {pages} pages; {late} came too late")

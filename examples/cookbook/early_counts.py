"""How many pages has each country had so far, in windows of ten minutes? A row every two minutes, with how wrong it is
expected to be once enough windows have been seen, and in the end the row of the closed window.
"""

from streams import show, visits

import slackwater as sw

QUERY = """
    SELECT country, COUNT(*) AS pages FROM visits [10 MINUTES] GROUP BY country
    EMIT EARLY EVERY 2 MINUTES WITH ERROR 2%
"""

answer = sw.replay(QUERY, {"visits": visits(120)})
germany = [row for row in answer.results.to_pylist() if row["country"] == "DE"]
show([{name: row[name] for name in ("window_end", "pages", "_expected_error", "_version")} for row in germany[-6:]])
print(f"{answer.report['results']} rows of closed windows, {answer.report['amended']} rows before them")

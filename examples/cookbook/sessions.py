"""How long are visits? A session of a user ends when they look at nothing for more than a minute."""

from streams import show, visits

import slackwater as sw

QUERY = """
    SELECT session_window.start AS began, session_window.end AS ended, user, COUNT(*) AS pages
    FROM visits GROUP BY user, session_window(ts, '1 minute')
    WITH DELAY 1 MINUTE
"""

answer = sw.replay(QUERY, {"visits": visits()})
rows = answer.results.drop(["window_start", "window_end"]).to_pylist()
show(sorted(rows, key=lambda row: row["pages"])[-3:])
print(f"{len(rows)} sessions with {sum(row['pages'] for row in rows)} pages, {answer.late['visits'].num_rows} late")

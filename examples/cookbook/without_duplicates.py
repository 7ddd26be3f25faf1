"""Which page views are there, when some messages are sent twice? Each once, if it comes again within five minutes."""

from streams import show, visits

import slackwater as sw

QUERY = "SELECT DISTINCT id, user, country FROM visits [RANGE 5 MINUTES] WITH DELAY 30 SECONDS"

sent = visits(doubled=0.1)
answer = sw.replay(QUERY, {"visits": sent})
show(answer.results.to_pylist()[:3])
ids, late = answer.results["id"].to_pylist(), answer.late["visits"].num_rows
print(f"{sent.num_rows} messages, {len(ids)} rows with {len(set(ids))} ids; {late} came too late")

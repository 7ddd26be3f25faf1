"""How many page views and users has each country a minute, when some messages are sent twice?"""

from streams import show, visits

import slackwater as sw

QUERY = """
    SELECT country, COUNT(DISTINCT id) AS pages, COUNT(DISTINCT user) AS users, COUNT(*) AS messages
    FROM visits [1 MINUTE] GROUP BY country
    WITH ERROR 2%
"""

answer = sw.replay(QUERY, {"visits": visits(doubled=0.1)})
show(answer.results.to_pylist()[:3])
pages, messages = (sum(answer.results[name].to_pylist()) for name in ("pages", "messages"))
print(f"{pages} pages in {messages} messages")

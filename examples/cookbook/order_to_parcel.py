"""Which orders were paid within an hour and sent within three days? A row is kept for as long as it can match."""

from streams import MINUTE, orders_payments_parcels, show

import slackwater as sw

QUERY = """
    SELECT o.id, o.ts AS ordered, p.ts AS paid, s.ts AS sent
    FROM orders o
    JOIN payments p ON p.order_id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR
    JOIN parcels s ON s.order_id = o.id AND s.ts BETWEEN p.ts AND o.ts + INTERVAL 3 DAYS
    WITH RECALL 0.99 OVER 1 DAY
"""

streams = orders_payments_parcels(every=10 * MINUTE)
answer = sw.replay(QUERY, streams)
show(answer.results.to_pylist()[:3])
recall = answer.report["measured_quality"]["measured"]
print(f"{answer.results.num_rows} of {streams['orders'].num_rows} orders, measured recall {recall:.3f}")

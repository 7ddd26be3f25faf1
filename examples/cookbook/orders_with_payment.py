"""When was each order paid, and which ones were not within an hour? Both sorts of rows are counted by the target."""

from streams import orders_payments_parcels, show

import slackwater as sw

QUERY = """
    SELECT o.id, o.amount, p.ts AS paid
    FROM orders o LEFT JOIN payments p
      ON p.order_id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR
    WITH RECALL 0.99 PRECISION 0.999 OVER 10 MINUTES
"""

answer = sw.replay(QUERY, orders_payments_parcels(2000))
rows = answer.results.to_pylist()
unpaid = [row for row in rows if row["paid"] is None]
show([*rows[:2], *unpaid[:2]])
quality = answer.report["measured_quality"]
print(
    f"{len(rows)} orders, {len(unpaid)} unpaid; recall {quality['measured']:.4f}, precision {quality['precision']:.4f}"
)

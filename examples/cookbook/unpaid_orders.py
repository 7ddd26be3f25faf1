"""Which orders were not paid within an hour? A row leaves when its hour has passed; hardly any payment comes later."""

from streams import orders_payments_parcels, show

import slackwater as sw

QUERY = """
    SELECT o.id, o.customer, o.amount FROM orders o
    WHERE NOT EXISTS (SELECT * FROM payments p
                      WHERE p.order_id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR)
    WITH RECALL 0.99 PRECISION 0.99 OVER 1 HOUR
"""

answer = sw.replay(QUERY, orders_payments_parcels(2000))
show(answer.results.to_pylist()[:3])
print(f"{answer.results.num_rows} unpaid orders, {answer.report['measured_quality']['precision']:.1%} of them really")

"""What is ordered from each city? The stream has the customer, and a table that does not change the city."""

import pyarrow as pa
from streams import orders_payments_parcels, show

import slackwater as sw

QUERY = """
    SELECT c.city, SUM(o.amount) AS total
    FROM orders o [30 MINUTES] JOIN customers c ON o.customer = c.id
    GROUP BY c.city
    WITH ERROR 1%
"""

customers = pa.table({"id": range(20), "city": ["Oslo", "Rome"] * 10})
orders = orders_payments_parcels()["orders"]
answer = sw.replay(QUERY, {"orders": orders, "customers": sw.lookup(customers, unique=True)})
show(answer.results.to_pylist()[:4])
print(f"{sum(answer.results['total'].to_pylist())} in all")

"""Many queries as one streaming query: one reading of every source, one exchange, one stateful operator."""

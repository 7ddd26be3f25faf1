"""The shards of a query: what each of them does in a micro-batch, and how its state outlives it."""

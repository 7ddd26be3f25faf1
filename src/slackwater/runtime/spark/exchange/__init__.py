"""From the partitions of an input to the shards of a query: what crosses, and who writes it."""

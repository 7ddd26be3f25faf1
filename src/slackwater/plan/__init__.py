"""From a bound query to the physical plan that any runtime can host, and its explanation."""

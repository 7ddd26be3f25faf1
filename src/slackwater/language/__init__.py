"""From query text to a bound query."""

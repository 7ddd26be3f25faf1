"""A history that goes before the streams of a query on Spark."""

"""Measurements as values: latency, slack, the report of a run."""

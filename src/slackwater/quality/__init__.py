"""What quality-driven slack is computed from: statistics of delays and values, models, a PD controller."""

"""What quality-driven slack is computed from: ledgers of results, statistics of delays and values, controllers."""

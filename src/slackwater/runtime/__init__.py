"""Where a plan runs: in this process, or on Spark."""

"""Public helpers for tests: slow oracles, traces and laws."""

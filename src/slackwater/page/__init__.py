"""The live page: a small server on this machine that shows moments of queries as they come, and after the run."""

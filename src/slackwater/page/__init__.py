"""The live page: a small server on this machine that shows the progress of queries as it comes, and after the run."""

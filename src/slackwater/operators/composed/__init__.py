"""Quality targets of queries of several operators: the rows that should reach the top, against those that do."""

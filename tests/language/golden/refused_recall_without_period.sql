SELECT a.v FROM a [5 s], b [5 s] WITH RECALL 0.9

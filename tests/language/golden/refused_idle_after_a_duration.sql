SELECT a.v FROM a [5 s], b [5 s] WITH COMPLETE OPTIONS (idle_after = 20 SECONDS)

SELECT a.v FROM a [5 s], b [5 s] WITH recall .95 at most '500 ms' over 1 MINUTE OPTIONS (max_behind = 2 HOURS, idle_after = 20)

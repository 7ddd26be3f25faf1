SELECT MAX(v) FROM (SELECT a.v FROM a [5 s], b [5 s] WHERE a.key = b.key) j [1 MINUTE] WITH ERROR 1%

SELECT COUNT(*) AS n, MAX(j.w) AS most FROM (SELECT a.w FROM a [5 s], b [2 s] WHERE a.k = b.k) j [1 MINUTE] WITH ERROR 2%

SELECT COUNT(*) AS n FROM (SELECT a.v FROM a [5 s], (SELECT key, COUNT(*) AS n FROM s [1 s] GROUP BY key) t [5 s]
WHERE a.key = t.key) j [1 MINUTE] WITH ERROR 1%

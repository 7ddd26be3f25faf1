SELECT MAX(name) AS last FROM (SELECT a.name FROM a [5 s], b [5 s] WHERE a.key = b.key) j [1 MINUTE] WITH ERROR 1%

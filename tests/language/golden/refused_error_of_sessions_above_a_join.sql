SELECT key, COUNT(*) AS n FROM (SELECT a.key FROM a [5 s], b [5 s] WHERE a.key = b.key) j [SESSION 1 MINUTE] GROUP BY key WITH ERROR 1%

SELECT key * 2 AS twice, MAX(v) - MIN(v) AS spread, round(AVG(v), 2), COUNT(*) AS n FROM s [1 s] GROUP BY key HAVING n > 2 AND spread > 1

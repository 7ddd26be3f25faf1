SELECT * FROM (SELECT key, COUNT(*) AS n FROM s [1 s] GROUP BY key) t

SELECT a.key, COUNT(*) AS n FROM a [5 s], b [5 s] WHERE a.key = b.key GROUP BY a.key ORDER BY n DESC LIMIT 3

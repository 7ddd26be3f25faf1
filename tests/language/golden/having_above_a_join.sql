SELECT COUNT(*) AS n, SUM(a.v) / COUNT(*) AS mean FROM a, b WINDOW 10 s WHERE a.key = b.key GROUP BY a.key HAVING n > 3

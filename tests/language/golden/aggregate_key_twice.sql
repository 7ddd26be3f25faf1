SELECT COUNT(*) AS n, key, key AS again FROM s [1 s] GROUP BY v + 1, key

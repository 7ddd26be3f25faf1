SELECT key, COUNT(*) FROM s [1 s] GROUP BY key HAVING v > 1

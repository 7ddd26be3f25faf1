SELECT SUM(v) / COUNT(*) FROM s [1 s]

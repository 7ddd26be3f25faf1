SELECT SUM(name) FROM s [1 s]

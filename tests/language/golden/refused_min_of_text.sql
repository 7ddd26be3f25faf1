SELECT MIN(name) FROM s [1 s]

SELECT MIN(ok) FROM s [1 s]

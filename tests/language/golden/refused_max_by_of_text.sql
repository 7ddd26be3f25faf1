SELECT MAX_BY(v, name) FROM s [1 s]

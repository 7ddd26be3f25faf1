SELECT *, COUNT(*) FROM s [1 s]

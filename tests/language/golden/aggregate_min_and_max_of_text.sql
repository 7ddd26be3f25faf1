SELECT MIN(name), MAX(name) AS last FROM s [1 s]

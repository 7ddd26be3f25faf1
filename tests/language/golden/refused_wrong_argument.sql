SELECT sqrt(name) FROM s

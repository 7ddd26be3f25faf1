SELECT hour(key) FROM s

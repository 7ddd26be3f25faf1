SELECT approx_count_distinct(name, key, v) FROM s [1 MINUTE]

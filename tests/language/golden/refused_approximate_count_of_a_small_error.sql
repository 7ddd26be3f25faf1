SELECT approx_count_distinct(name, 0.001) FROM s [1 MINUTE]

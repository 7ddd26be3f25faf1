SELECT approx_percentile(v, 0.5), percentile_approx(v, 0.9, 10000) AS high FROM s [1 MINUTE]

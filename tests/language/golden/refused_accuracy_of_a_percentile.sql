SELECT approx_percentile(v, 0.5, 0) FROM s [1 MINUTE]

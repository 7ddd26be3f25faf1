SELECT percentile_cont(v, 0.5) FROM s [1 MIN]

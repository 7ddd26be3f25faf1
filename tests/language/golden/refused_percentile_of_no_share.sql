SELECT percentile(v) FROM s [1 MIN]

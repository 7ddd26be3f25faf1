SELECT count_if(v) FROM s [1 MIN]

SELECT count_if(*) FROM s [1 MIN]

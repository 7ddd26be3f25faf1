SELECT if(ok, v) FROM s

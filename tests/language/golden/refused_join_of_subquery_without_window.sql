SELECT t.v FROM (SELECT v FROM s) t, a [1 s] WHERE t.v = a.v

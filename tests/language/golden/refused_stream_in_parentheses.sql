SELECT v FROM (s) t

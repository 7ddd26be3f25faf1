SELECT a.v FROM a [1 s], b, s WHERE a.key = b.key window (a, B) 5 s AND (b, s) '3 s' WITH NO WAIT

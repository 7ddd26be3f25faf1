SELECT a.v FROM a, b WINDOW (a, b) = 5 s AND a.key = b.key

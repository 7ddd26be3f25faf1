SELECT a.v FROM a, b WINDOW (a, b) = 5 s AND (b, a) = 4 s

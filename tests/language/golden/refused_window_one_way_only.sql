SELECT a.v FROM a [5 s], b, s WINDOW (a, b) = 5 s

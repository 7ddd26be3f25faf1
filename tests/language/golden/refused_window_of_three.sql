SELECT a.v FROM a, b, s WINDOW (a, b, s) = 5 s

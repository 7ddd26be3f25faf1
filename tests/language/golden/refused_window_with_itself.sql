SELECT a.v FROM a, b WINDOW (a, A) = 5 s

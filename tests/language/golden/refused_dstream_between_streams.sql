SELECT DSTREAM a.v FROM a, b WINDOW (a, b) = 5 s

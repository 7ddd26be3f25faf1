SELECT a.v FROM a, b, s, positions p WINDOW (a, b) = 5 s AND (s, p) = 3 s

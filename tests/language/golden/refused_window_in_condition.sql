SELECT a.v FROM a, b WHERE a.key = b.key AND WINDOW (a, b) = 5 s

SELECT x.v FROM a x, b y WINDOW (x, b) = 5 s

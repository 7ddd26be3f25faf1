SELECT a.v FROM a [ROWS 10], b WINDOW (a, b) = 5 SECONDS WHERE a.key = b.key

SELECT COUNT(*) FROM a, b, s WINDOW (a, b) = 5 s AND WINDOW (b, s) = 5 s WHERE a.key = b.key

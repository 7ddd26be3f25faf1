SELECT * FROM a FULL JOIN b ON a.key = b.key AND a.ok WINDOW (a, b) = 5 s WHERE a.v > 1

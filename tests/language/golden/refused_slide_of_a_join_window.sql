SELECT a.v FROM a, b WINDOW 5 s SLIDE 1 s WHERE a.key = b.key

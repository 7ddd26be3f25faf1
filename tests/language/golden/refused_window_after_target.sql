SELECT a.v FROM a, b WHERE a.key = b.key WITH NO WAIT WINDOW 5 s

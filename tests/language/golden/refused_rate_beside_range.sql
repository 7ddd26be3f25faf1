SELECT a.v FROM a [RATE 10 s], b [5 s] WHERE a.key = b.key

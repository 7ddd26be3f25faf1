SELECT DSTREAM EVERY 1 s a.v FROM a [5 s], b [2 s] WHERE a.key = b.key

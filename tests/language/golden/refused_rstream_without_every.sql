SELECT RSTREAM a.v FROM a [5 s], b [2 s] WHERE a.key = b.key

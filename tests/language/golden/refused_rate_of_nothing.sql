SELECT a.v FROM a [RATE 0 s], b [RATE 10 s]

SELECT a.v FROM a [RATE 10 s BY v], b [RATE 10 s]

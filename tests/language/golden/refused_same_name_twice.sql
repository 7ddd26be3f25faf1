SELECT a.v FROM a [5 s], a [5 s]

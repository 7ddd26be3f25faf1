SELECT a.v FROM a, b [5 s]

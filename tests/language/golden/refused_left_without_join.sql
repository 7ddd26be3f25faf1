SELECT a.v FROM a [5 s] LEFT b [5 s] ON a.key = b.key

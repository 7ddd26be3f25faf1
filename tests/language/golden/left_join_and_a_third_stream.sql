SELECT a.v FROM a [5 s] LEFT JOIN b [5 s] ON a.key = b.key, s [5 s]

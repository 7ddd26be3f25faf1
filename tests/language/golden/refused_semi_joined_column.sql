SELECT a.v FROM a [5 s] LEFT SEMI JOIN b [5 s] ON a.key = b.key LEFT JOIN s [5 s] ON s.key = b.key

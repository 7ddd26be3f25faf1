SELECT a.v FROM a [1 s], b [1 s] RIGHT JOIN s [1 s] ON s.key = b.key WHERE a.key = b.key

SELECT a.v FROM a [5 s SLIDE 1 s] LEFT JOIN b [5 s SLIDE 1 s] ON a.key = b.key

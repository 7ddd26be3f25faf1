SELECT a.v FROM a [5 s] LEFT JOIN b [ROWS 5] ON a.key = b.key

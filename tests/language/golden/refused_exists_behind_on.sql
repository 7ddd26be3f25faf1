SELECT a.v FROM a [1 s] LEFT JOIN b [1 s] ON a.key = b.key AND EXISTS (SELECT 1 FROM s [1 s])

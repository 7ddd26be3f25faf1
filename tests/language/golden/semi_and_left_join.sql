SELECT * FROM a [1 s] LEFT SEMI JOIN b [2 s] ON a.key = b.key AND b.ok LEFT JOIN s [3 s] ON s.key = a.key WHERE a.ok

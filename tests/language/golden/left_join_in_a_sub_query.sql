SELECT COUNT(*) FROM (SELECT a.v FROM a [5 s] LEFT JOIN b [5 s] ON a.key = b.key) j [10 s]

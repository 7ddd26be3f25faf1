SELECT COUNT(*) AS n FROM a [5 s] LEFT JOIN b [5 s] ON a.key = b.key WITH ERROR 1%

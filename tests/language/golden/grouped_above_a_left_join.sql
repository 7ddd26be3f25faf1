SELECT a.key, COUNT(b.v) AS n FROM a [1 MINUTE] LEFT JOIN b [1 MINUTE] ON a.key = b.key GROUP BY a.key

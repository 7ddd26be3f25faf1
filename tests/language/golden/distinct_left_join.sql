SELECT DISTINCT a.key, b.v AS w FROM a [5 s] LEFT JOIN b [5 s] ON a.key = b.key

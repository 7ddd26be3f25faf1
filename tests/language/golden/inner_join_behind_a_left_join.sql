SELECT a.v, b.v AS w, s.v AS x FROM a [5 s] LEFT JOIN b [3 s] ON a.key = b.key JOIN s [4 s] ON s.key = a.key WHERE b.v IS NULL AND s.ok

SELECT a.key, b.v AS w, s.v AS x FROM a [5 s] JOIN b [3 s] USING (key) LEFT JOIN s [4 s] ON s.key = a.key

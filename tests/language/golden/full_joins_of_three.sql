SELECT a.v, b.v AS w, s.v AS x FROM a [5 s] FULL JOIN b [3 s] ON a.key = b.key FULL JOIN s [2 s] ON s.key = a.key

SELECT a.v FROM a [5 s] LEFT JOIN b [5 s] ON a.key = b.key LEFT JOIN s [5 s] ON s.key = a.key EMIT IN ORDER WITH CORRECTIONS

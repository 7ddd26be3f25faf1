SELECT a.v FROM a [RATE 5 s] JOIN b [RATE 5 s] ON a.key = b.key CROSS JOIN s [RATE 9 s] MATCH TIME OPTIONS (order = written)

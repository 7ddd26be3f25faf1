SELECT a.v FROM a [5 s] SEMI JOIN b [3 s] ON a.key = b.key AND a.ok WHERE a.v > 1

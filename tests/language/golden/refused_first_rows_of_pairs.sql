SELECT a.v FROM a [5 s], b [5 s] WHERE a.key = b.key ORDER BY a.v LIMIT 3

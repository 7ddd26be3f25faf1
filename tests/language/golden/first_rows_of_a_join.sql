SELECT * FROM (SELECT a.key, b.v FROM a [5 s], b [5 s] WHERE a.key = b.key) j [1 MINUTE] ORDER BY v LIMIT 3

SELECT a.v FROM a [5 SEC] INNER JOIN b [2 sec] ON a.key = b.key AND b.v > 1
JOIN s [1 sec] ON s.key = a.key WHERE a.ok

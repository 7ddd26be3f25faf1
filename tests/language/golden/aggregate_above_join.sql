SELECT a.name, COUNT(DISTINCT a.key) AS n, SUM(a.v + b.v) AS total FROM a, b WHERE a.key = b.key AND a.ok
WINDOW 10 MINUTES SLIDE 1 MINUTE GROUP BY a.name

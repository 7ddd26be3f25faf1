SELECT x.key, x.hi, y.hi - x.av AS more
FROM (SELECT key, MAX(v) AS hi, AVG(v) AS av FROM s [RANGE 5 MINUTES SLIDE 1 SECOND] GROUP BY key) x,
     (SELECT key, MAX(v) AS hi FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY key) y
WHERE x.key = y.key WITH DELAY 2 s

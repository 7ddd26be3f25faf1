SELECT x.key, b.v AS w FROM (SELECT a.key AS key, a.ts AS seen FROM a [5 s] LEFT JOIN s [5 s] ON a.key = s.key) x LEFT JOIN b ON b.key = x.key AND b.ts BETWEEN x.seen AND x.seen + INTERVAL 1 MINUTE

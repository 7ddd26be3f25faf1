SELECT x.v FROM (SELECT ts AS seen, key, v FROM a WHERE ok) x
JOIN b ON b.key = x.key AND b.ts BETWEEN x.seen AND x.seen + INTERVAL 5 SECONDS

SELECT a.v, b.v AS w, s.v AS x FROM a JOIN b ON a.key = b.key AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS LEFT JOIN s ON s.key = b.key AND s.ts >= b.ts

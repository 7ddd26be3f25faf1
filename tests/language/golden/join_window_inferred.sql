SELECT a.key, b.v FROM a JOIN b ON a.key = b.key AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 30 SECONDS

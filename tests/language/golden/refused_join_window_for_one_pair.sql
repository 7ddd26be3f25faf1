SELECT a.v FROM a JOIN b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS JOIN s ON s.key = a.key

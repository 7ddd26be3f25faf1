SELECT a.v FROM a JOIN b ON b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 5 SECONDS
JOIN s ON s.ts BETWEEN b.ts AND b.ts + INTERVAL 3 SECONDS

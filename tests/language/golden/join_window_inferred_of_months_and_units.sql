SELECT a.v FROM a JOIN b ON b.ts >= a.ts AND b.ts < a.ts + INTERVAL 1 MONTH
JOIN s ON date_trunc('hour', s.ts) = date_trunc('hour', a.ts)

SELECT a.v FROM a [5 s], b [5 s]
WHERE a.ts >= '2024-01-01' AND b.ts < TIMESTAMP '2024-01-01 00:00:01+01:00'
  AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL '5' SECOND
  AND abs(a.ts - b.ts) < INTERVAL '3 seconds'
  AND INTERVAL 2 SECONDS > a.ts - b.ts

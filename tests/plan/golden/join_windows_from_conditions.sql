SELECT a.w AS aw FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS
JOIN c ON b.k = c.k AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 3 SECONDS

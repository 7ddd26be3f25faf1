EXPLAIN SELECT a.x, b.x AS bx FROM a LEFT JOIN b ON a.k = b.k AND a.x > 0 AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 30 MINUTES WHERE b.x IS NULL OR b.x > 1

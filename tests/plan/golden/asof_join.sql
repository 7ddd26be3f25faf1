SELECT a.w AS aw, b.x, b.ts AS since FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k % 3 = b.k WITHIN 5 MINUTES WHERE a.w > 0 AND b.x < 1.5 WITH DELAY 1 SECOND

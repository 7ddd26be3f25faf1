SELECT a.v, b.v AS then FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key WHERE EXISTS (SELECT 1 FROM s [5 SECONDS] WHERE s.key = a.key)

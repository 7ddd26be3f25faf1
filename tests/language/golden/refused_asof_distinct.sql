SELECT DISTINCT a.v FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key

SELECT a.v, b.v AS then FROM a ASOF JOIN b [5 SECONDS] MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key

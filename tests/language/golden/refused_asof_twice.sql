SELECT a.v, b.v AS then FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key ASOF JOIN s MATCH_CONDITION (a.ts >= s.ts) ON a.key = s.key

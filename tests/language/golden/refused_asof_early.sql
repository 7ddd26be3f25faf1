SELECT a.v, b.v AS then FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key EMIT EARLY EVERY 10 SECONDS

SELECT a.v, b.v AS then FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key WITH RECALL 0.9 OVER 1 MINUTE OPTIONS (controller = 'model')

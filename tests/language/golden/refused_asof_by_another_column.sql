SELECT a.v, b.v AS then FROM a ASOF JOIN b MATCH_CONDITION (a.v >= b.v) ON a.key = b.key

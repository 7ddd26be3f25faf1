SELECT a.v FROM a ASOF JOIN (SELECT * FROM b WHERE v > 0) c MATCH_CONDITION (a.ts >= c.ts) ON a.key = c.key

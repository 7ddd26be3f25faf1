SELECT o.v, p.name FROM a AS o LEFT ASOF JOIN b AS p MATCH_CONDITION (p.ts < o.ts) ON o.key = p.key AND p.ok AND upper(o.name) = p.name WHERE o.v > 0 AND (p.v IS NULL OR p.v < o.v)

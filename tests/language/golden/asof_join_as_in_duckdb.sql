SELECT a.v, b.v AS then FROM a ASOF LEFT JOIN b ON a.key = b.key AND a.ts >= b.ts

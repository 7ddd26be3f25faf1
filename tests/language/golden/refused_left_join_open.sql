SELECT a.v, b.v AS w FROM a LEFT JOIN b ON a.key = b.key AND b.ts >= a.ts

SELECT a.v, b.v AS w FROM a RIGHT OUTER JOIN b ON a.key = b.key AND a.ok AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR WHERE b.name = 'x' AND a.name = 'y'

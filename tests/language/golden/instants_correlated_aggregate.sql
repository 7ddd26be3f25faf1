SELECT p.key, COUNT(*) AS high
FROM s [RANGE 5 MINUTES SLIDE 1 SECOND] p,
     (SELECT key, MAX(v) AS top FROM s [RANGE 5 MINUTES SLIDE 1 SECOND] WHERE ok GROUP BY key) m
WHERE p.key = m.key AND p.v > 0.9 * m.top AND p.ok
GROUP BY p.key

SELECT key, MAX(total) AS most FROM (SELECT key, name, SUM(v) AS total FROM s [RANGE 5 MINUTES SLIDE 1 SECOND] GROUP BY key, name) t GROUP BY key

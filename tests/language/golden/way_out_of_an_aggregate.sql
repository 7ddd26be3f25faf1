SELECT DSTREAM key, SUM(v) AS total FROM s [5 s SLIDE 1 s] GROUP BY key

SELECT key, approx_count_distinct(name) AS names, APPROX_COUNT_DISTINCT(v, 0.01) AS values, approx_count_distinct(name) FILTER (WHERE ok)
FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY key

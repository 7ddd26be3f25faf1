SELECT window_start, window_end, key, COUNT(*) AS n
FROM TABLE(SESSION(TABLE s PARTITION BY key, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY key, window_start, window_end

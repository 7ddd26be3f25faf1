SELECT window_start, window_end, window_time, key, SUM(v) AS total
FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, key

WITH window1 AS (SELECT window_start, window_end, window_time AS rowtime, SUM(v) AS part
FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY key, window_start, window_end, window_time)
SELECT window_start, window_end, SUM(part) AS total
FROM TABLE(TUMBLE(TABLE window1, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end

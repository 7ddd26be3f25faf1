SELECT window_start, SUM(v) AS total FROM HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES) AS w
GROUP BY w.key, window_start, window_end

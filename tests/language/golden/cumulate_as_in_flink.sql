SELECT window_start, window_end, SUM(v) AS total FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))
GROUP BY window_start, window_end

SELECT window.start AS beginning, window(ts, '1 hour') AS window, MAX(v) AS high FROM s GROUP BY window(ts, INTERVAL '1' HOUR, '60 minutes', '0 seconds')

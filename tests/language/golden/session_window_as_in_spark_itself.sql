SELECT session_window, key, COUNT(*) AS n FROM s GROUP BY session_window(ts, '5 minutes'), key

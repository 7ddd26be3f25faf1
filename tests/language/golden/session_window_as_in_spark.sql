SELECT session_window.start, session_window.end, key, COUNT(*) AS n FROM s GROUP BY session_window(ts, '5 minutes'), key

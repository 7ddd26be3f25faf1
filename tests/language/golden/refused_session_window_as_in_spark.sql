SELECT COUNT(*) FROM s GROUP BY session_window(ts, '5 minutes'), key

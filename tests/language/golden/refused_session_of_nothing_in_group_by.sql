SELECT COUNT(*) FROM s GROUP BY session_window(ts, '0 minutes'), key

SELECT COUNT(*) FROM s GROUP BY session_window(ts, name), key

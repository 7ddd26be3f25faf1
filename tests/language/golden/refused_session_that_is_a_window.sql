SELECT window(ts, '5 minutes'), COUNT(*) FROM s GROUP BY session_window(ts, '5 minutes')

SELECT COUNT(*) FROM s GROUP BY window(ts, '5 minutes', '5 minutes', '1 minute')

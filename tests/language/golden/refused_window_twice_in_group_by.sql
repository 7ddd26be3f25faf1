SELECT COUNT(*) FROM s GROUP BY window(ts, '5 minutes'), window(ts, '1 minute')

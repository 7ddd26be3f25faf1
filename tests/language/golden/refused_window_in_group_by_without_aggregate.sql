SELECT key FROM s GROUP BY window(ts, '5 minutes')

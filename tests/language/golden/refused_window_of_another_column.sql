SELECT COUNT(*) FROM s GROUP BY window(key, '5 minutes')

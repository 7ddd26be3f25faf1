SELECT window(ts, '1 minute'), COUNT(*) FROM s GROUP BY window(ts, '5 minutes')

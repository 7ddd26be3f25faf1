SELECT window.start, window.end, key, COUNT(*) AS n FROM s GROUP BY window(ts, '5 minutes', '1 minute'), key

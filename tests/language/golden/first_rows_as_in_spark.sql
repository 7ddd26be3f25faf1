SELECT window.start AS minute, key, count(*) AS n FROM s GROUP BY window(ts, '1 minute'), key
ORDER BY count(*) DESC, minute LIMIT 5

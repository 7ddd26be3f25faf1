SELECT window.start, SUM(n) AS n FROM (SELECT window_time(window) AS at, COUNT(*) AS n FROM s GROUP BY window(ts, '5 minutes')) j
GROUP BY window(at, '1 hour')

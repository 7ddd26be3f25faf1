SELECT window.start, SUM(n) AS n FROM (SELECT window, COUNT(*) AS n FROM s GROUP BY window(ts, '5 minutes')) w GROUP BY window(window, '1 hour')

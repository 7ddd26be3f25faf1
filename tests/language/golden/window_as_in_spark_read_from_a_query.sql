SELECT window.start, window.end AS e, n FROM (SELECT window, COUNT(*) AS n FROM s GROUP BY window(ts, '5 minutes')) w WHERE window.start > '2024-01-01'

SELECT window, window_time(window) AS at, AVG(v) AS mean FROM s GROUP BY window(s.ts, '5 minutes')

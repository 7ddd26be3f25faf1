EXPLAIN (FORMAT JSON) SELECT SUM(w) AS total FROM a GROUP BY session_window(ts, '30 minutes')

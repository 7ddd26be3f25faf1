SELECT COUNT(*) AS window_start FROM s [1 s]

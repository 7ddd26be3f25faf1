SELECT MEDIAN(v) AS mid, window_time AS at FROM s [SESSION 5 s] WITH NO WAIT

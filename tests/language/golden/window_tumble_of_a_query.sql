SELECT window_start, SUM(v) AS total FROM TUMBLE((SELECT ts, v FROM s WHERE ok) , DESCRIPTOR(ts), INTERVAL 1 MINUTE) t
GROUP BY window_start, window_end

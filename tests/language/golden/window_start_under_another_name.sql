SELECT window_start AS begins, COUNT(*) FROM s [1 s]

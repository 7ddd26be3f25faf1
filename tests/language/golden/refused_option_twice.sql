SELECT v FROM s OPTIONS (max_ahead = 1 s, max_ahead = 2 s)

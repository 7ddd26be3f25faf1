SELECT v FROM s OPTIONS (max_ahead = 1 HOUR)

SELECT v FROM s OPTIONS (initial_slak = 1 s)

SELECT a.v FROM a [RANGE 5 s SLIDE 1 s], b [5 s]

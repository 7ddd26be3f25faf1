SELECT a.v FROM a [SESSION 5 s], b [RANGE 1 s] WHERE a.key = b.key

SELECT v FROM s
WHERE v > 1 AND sqrtt(v) > 2

SELECT d.v, b.v AS w FROM (SELECT DISTINCT key, v FROM a [RANGE 10 MINUTES]) d [5 s], b [5 s] WHERE d.key = b.key

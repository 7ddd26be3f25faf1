SELECT DSTREAM a.v, b.v AS w FROM a [5 s], b [2 s] WHERE a.key = b.key

SELECT a.v, b.v AS w FROM a [RATE 10 SECONDS], b [RATE 1 MINUTE] MATCH TIME WHERE a.key = b.key AND a.ok
OPTIONS (sampling = 'rounds')

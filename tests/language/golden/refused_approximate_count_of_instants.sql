SELECT approx_count_distinct(p.name) FROM s [RANGE 5 MINUTES SLIDE 1 SECOND] p, a [RANGE 5 MINUTES SLIDE 1 SECOND] q WHERE p.key = q.key

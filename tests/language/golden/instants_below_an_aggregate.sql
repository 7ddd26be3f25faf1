SELECT COUNT(*) FROM a [5 s SLIDE 1 s], b [5 s SLIDE 1 s] WHERE a.key = b.key

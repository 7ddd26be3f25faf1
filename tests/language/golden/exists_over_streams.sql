SELECT v FROM a [5 s] WHERE EXISTS (SELECT 1 FROM b [1 s] WHERE b.key = a.key AND v > 3) AND name = 'x'

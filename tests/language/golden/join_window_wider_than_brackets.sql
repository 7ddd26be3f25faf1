SELECT a.v FROM a [5 s], b [5 s] WHERE abs(a.ts - b.ts) < INTERVAL 1 MINUTE

SELECT a.v FROM a [ROWS 5], b [5 s] WHERE a.ts <= b.ts

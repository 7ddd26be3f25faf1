SELECT a.v FROM a [30 s], b [30 s] WHERE a.key = b.key AND b.ts >= a.ts

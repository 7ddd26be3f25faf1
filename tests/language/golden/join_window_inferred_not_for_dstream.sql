SELECT DSTREAM a.v FROM a [5 s], b [5 s] WHERE a.ts <= b.ts

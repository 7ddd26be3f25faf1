SELECT a.v FROM a [30 s] JOIN b ON a.key = b.key AND b.ts >= a.ts

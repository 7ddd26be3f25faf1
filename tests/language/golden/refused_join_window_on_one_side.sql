SELECT a.v FROM a JOIN b ON a.key = b.key AND b.ts >= a.ts

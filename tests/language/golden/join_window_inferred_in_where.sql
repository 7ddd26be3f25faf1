SELECT a.key, b.v FROM a, b WHERE a.key = b.key AND a.ts < b.ts AND b.ts - INTERVAL '1 minute' < a.ts

SELECT a.v FROM a JOIN b ON abs(b.ts - a.ts) <= INTERVAL 5 SECONDS WHERE INTERVAL '2' SECOND >= a.ts - b.ts

SELECT COUNT(*) FROM a JOIN b ON a.ts = b.ts GROUP BY window(a.ts, '5 minutes')

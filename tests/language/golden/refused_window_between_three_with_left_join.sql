SELECT a.v FROM a JOIN b ON a.key = b.key LEFT JOIN s ON s.key = a.key WINDOW 5 SECONDS

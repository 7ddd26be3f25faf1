SELECT k, w FROM a UNION ALL SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM b [1 s] GROUP BY k) t WHERE n > 1
WITH COMPLETE OPTIONS (clock_by = 'k', idle_timeout = 30 s)

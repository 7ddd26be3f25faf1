SELECT key FROM s [1 s] GROUP BY key HAVING MAX(v) > 1 AND window_start > '2024-01-01'

SELECT key, COUNT(*) AS n FROM a [5 s] JOIN b [5 s] USING (key) GROUP BY key

SELECT x.n, y.m FROM (SELECT key, COUNT(*) AS n FROM a [1 MINUTE] GROUP BY key) x
JOIN (SELECT key, COUNT(*) AS m FROM b [1 MINUTE] GROUP BY key) y
ON x.key = y.key AND x.window_start = y.window_start AND x.window_end = y.window_end

SELECT j.total, u.v FROM
 (SELECT key, SUM(v) AS total FROM s [1 MIN] GROUP BY key) j [5 s],
 (SELECT key, v FROM a UNION ALL SELECT key, to_float(key) FROM b WHERE ok) AS u [1 s]
WHERE j.key = u.key AND j.total > 1 AND j.window_end > u._ts WITH DELAY 1 s

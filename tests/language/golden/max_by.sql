SELECT key, MAX_BY(name, v + 1) AS best, any_value(v) FROM s [1 s] GROUP BY key

SELECT key FROM s [1 s] GROUP BY key

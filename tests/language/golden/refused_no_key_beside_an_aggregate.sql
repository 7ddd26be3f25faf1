SELECT v + COUNT(*) FROM s [1 s] GROUP BY key

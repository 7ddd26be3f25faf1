SELECT COUNT(*) FROM s [5 parsecs]

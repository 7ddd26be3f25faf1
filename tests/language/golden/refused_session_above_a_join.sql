SELECT COUNT(*) FROM a [SESSION 5 s] JOIN b [RANGE 1 s] ON a.key = b.key

SELECT COUNT(*) FROM a [ROWS 5], b [ROWS 5] WHERE a.key = b.key

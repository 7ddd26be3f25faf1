SELECT COUNT(*) AS n FROM a [5 s], b [5 s] WHERE a.key = b.key WITH ERROR 1% CONFIDENCE 95%

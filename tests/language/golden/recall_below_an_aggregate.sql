SELECT COUNT(*) AS n FROM (SELECT a.key AS key FROM a [5 s], b [5 s] WHERE a.key = b.key) j [1 MINUTE] WHERE key > 2
WITH RECALL 99% OVER 1 MINUTE

EXPLAIN SELECT a.key, a.v AS av, b.v AS bv, a.v - b.v AS diff
FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS]
WHERE a.key = b.key
WITH COMPLETE

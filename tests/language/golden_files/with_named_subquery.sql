CREATE QUERY total AS
WITH j AS (SELECT a.v FROM a [5 s], b [5 s] WHERE a.key = b.key)
SELECT SUM(v) AS total FROM j [RANGE 10 SECONDS];

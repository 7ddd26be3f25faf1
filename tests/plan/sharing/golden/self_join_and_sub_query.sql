CREATE QUERY near AS
  SELECT l.w AS one, r.w AS other FROM a AS l [5 s], a AS r [5 s] WHERE l.k = r.k AND l.x > 0 WITH DELAY 1 SECOND;
CREATE QUERY counts AS
  SELECT COUNT(*) AS n FROM (SELECT x FROM a WHERE k = 7) t [RANGE 1 s] WHERE x > 0;

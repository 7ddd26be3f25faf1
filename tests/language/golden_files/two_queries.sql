-- who is fast
CREATE QUERY fast AS
  SELECT name, v FROM s WHERE v > 9 WITH NO WAIT;

/* and how many; a comment may hold anything */
create query "how many" as
  SELECT COUNT(*) AS n FROM S [RANGE 1 SECOND] WHERE v > 9 WITH ERROR 1% CONFIDENCE 95%;

EXPLAIN SELECT a.w AS aw FROM a [5 SEC], b [2 SEC], c [1 SEC] WHERE dist(a.x, a.k, b.x, b.k) < 5 AND b.x BETWEEN c.x AND c.x + 3 WITH DELAY 1 SECOND

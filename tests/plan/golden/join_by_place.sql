EXPLAIN SELECT a.w AS aw FROM a [5 SEC], b [2 SEC] WHERE dist(a.x, a.k, b.x, b.k) < 5 AND a.k > 0 WITH DELAY 1 SECOND

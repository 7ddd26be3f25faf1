EXPLAIN SELECT a.w AS aw FROM a [5 SEC], b [2 SEC] WHERE abs(a.x - b.x) < 0.5 AND a.k > 0 WITH DELAY 1 SECOND

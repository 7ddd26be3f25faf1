SELECT a.w AS aw FROM a [5 SEC], b [5 SEC], c [5 SEC] WHERE a.k = b.k AND b.k = c.k AND a.x > 0 WITH NO WAIT

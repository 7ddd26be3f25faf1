SELECT a.w AS aw FROM a [5 SEC], b [2 SEC], c [1 SEC] WHERE a.k = b.k AND b.k = c.k AND b.x < c.x
WITH COMPLETE OPTIONS (shape = 'binary', ordering = 'filter')

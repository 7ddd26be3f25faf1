SELECT a.w AS aw FROM a [5 SEC], b [2 SEC] WHERE a.k = b.k WITH DELAY 2 SECONDS OPTIONS (ordering = 'filter')

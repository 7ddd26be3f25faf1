SELECT s.w AS aw FROM a s [5 SEC], b [5 SEC] WHERE s.k = b.k WITH COMPLETE OPTIONS (join = 'merge')

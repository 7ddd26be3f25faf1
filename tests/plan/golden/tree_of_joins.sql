SELECT a.w AS aw FROM a, b, c WHERE a.k = b.k PATH a -> b -> c WITHIN (5 SEC, 3 SEC)
WITH RECALL 95% OVER 1 MINUTE OPTIONS (shape = 'binary')

SELECT a.v FROM a, b, s WHERE s.ts = a.ts PATH a -> b WITHIN (5 SECONDS)

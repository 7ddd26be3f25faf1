SELECT a.v FROM a [5 s] JOIN positions [5 s] USING (key)

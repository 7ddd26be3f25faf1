SELECT a.v FROM a [5 s], b [5 s] USING (key)

SELECT a.v FROM a [5 s SLIDE 1 s] JOIN b [5 s SLIDE 1 s] USING (key)

SELECT a.v FROM a [5 s] JOIN b [5 s] USING key

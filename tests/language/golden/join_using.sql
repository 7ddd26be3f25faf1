SELECT *, key + 1 AS next FROM a [5 s] JOIN b [5 s] USING (key) WHERE b.key > 2

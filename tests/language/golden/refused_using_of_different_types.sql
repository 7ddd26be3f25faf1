SELECT p.x FROM (SELECT ts, key AS name FROM a) p [5 s] JOIN b [5 s] USING (name)

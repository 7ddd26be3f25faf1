SELECT regexp_replace(name, 'a', 'b') FROM s

SELECT v FROM a [5 s] WHERE key NOT IN (SELECT key FROM b [5 s])

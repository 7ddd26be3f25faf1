SELECT v FROM a [5 s] WHERE key IN (SELECT key FROM b [5 s] WHERE ok)

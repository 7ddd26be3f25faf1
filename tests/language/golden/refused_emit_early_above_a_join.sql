SELECT key, COUNT(*) AS n FROM (SELECT a.key, b.v FROM a [5 SEC], b [2 SEC] WHERE a.key = b.key) j [1 MIN] GROUP BY key EMIT EARLY EVERY 1 SECOND

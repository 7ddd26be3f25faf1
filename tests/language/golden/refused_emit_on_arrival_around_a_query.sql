SELECT t.n FROM (SELECT key, COUNT(*) AS n FROM s [1 MIN] GROUP BY key) t [5 SEC], a [5 SEC] WHERE t.key = a.key EMIT ON ARRIVAL

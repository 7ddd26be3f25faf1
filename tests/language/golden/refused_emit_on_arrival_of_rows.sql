SELECT a.v FROM a [ROWS 5], b [5 SEC] WHERE a.key = b.key EMIT ON ARRIVAL

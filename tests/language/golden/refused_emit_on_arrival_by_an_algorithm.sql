SELECT a.v FROM a [5 SEC], b [2 SEC] WHERE a.key = b.key EMIT ON ARRIVAL OPTIONS (join = 'hash')

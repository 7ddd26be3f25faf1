SELECT a.v FROM a [5 SEC], b [2 SEC] WHERE a.key = b.key EMIT IN ORDER WITH CORRECTIONS OPTIONS (ordering = 'filter')

SELECT x.v FROM a [1.5 SEC] AS x, b [100 MILLISECONDS] y WHERE x.key = y.key

SELECT a.v FROM a, b PATH a -> b

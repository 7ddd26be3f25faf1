SELECT a.v FROM a, b, s PATH a -> s -> b WITHIN 2 s

SELECT a.v FROM a, b, s PATH a -> b -> s WITHIN (5 s, 3 s) AND DWINDOW (s, b) = 3 s

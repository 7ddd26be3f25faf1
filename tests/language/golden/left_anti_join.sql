SELECT a.v FROM a [5 s] LEFT ANTI JOIN b [3 s] ON a.key = b.key AND a.ok AND b.ok

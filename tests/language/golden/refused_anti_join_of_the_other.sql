SELECT b.v FROM a [5 s] LEFT ANTI JOIN b [5 s] ON a.key = b.key

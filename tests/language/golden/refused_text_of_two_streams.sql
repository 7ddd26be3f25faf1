SELECT a.v FROM a [5 s], b [5 s] WHERE a.name LIKE b.name

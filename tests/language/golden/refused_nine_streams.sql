SELECT 1 AS one FROM a [1 s], a a2 [1 s], a a3 [1 s], a a4 [1 s], a a5 [1 s], a a6 [1 s], a a7 [1 s], a a8 [1 s],
  a a9 [1 s]

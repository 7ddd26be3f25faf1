SELECT A.ItemName
FROM Store1 A, Store2 B, Store3 C
WINDOW = 5 SECONDS
WHERE A.ItemNum=B.ItemNum AND B.ItemNum=C.ItemNum

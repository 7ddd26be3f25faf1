SELECT v FROM s
WHERE name = 'x

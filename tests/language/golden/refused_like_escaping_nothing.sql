SELECT v FROM s WHERE name LIKE 'a\b'

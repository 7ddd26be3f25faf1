SELECT MAX(least(v, key)), MIN(max(v, 0)) FROM s [1 s]

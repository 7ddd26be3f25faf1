SELECT window_start, key % 2 AS parity, COUNT(*), window_end FROM s [1 s] WHERE v > 0 GROUP BY parity, name WITH ERROR 0.05

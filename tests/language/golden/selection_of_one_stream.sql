SELECT v, v * 2, -v, ts FROM s WHERE v > 1 AND ok

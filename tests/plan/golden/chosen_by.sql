SELECT k, MAX_BY(k, x), arg_min(x, k + 1) AS low FROM a [10 SEC] GROUP BY k

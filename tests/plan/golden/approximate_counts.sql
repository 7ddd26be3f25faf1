SELECT k, approx_count_distinct(x) AS n, approx_count_distinct(w, 0.01) AS m FROM a [10 SEC] GROUP BY k

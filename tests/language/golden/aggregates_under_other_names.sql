SELECT mean(v) AS m, count_if(ok AND v > 1) AS n, count_if(ok) FILTER (WHERE v > 1) AS o, percentile(v, 0.9) AS p FROM s [1 MIN]

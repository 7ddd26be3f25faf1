SELECT approx_count_distinct(name) AS names FROM s [1 MINUTE] WITH ERROR 1%

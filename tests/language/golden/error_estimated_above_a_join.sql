SELECT COUNT(*) AS n FROM (SELECT a.v AS v FROM a [5 s], b [5 s] WHERE a.key = b.key) j [10 s] WITH ERROR 1% ESTIMATED

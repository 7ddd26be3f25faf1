SELECT k, COUNT(*) AS n FROM (SELECT a.k AS k, a.x AS x, b.w AS w FROM a [5 s], b [5 s] WHERE a.k = b.k AND a.x > 1) j [1 min]
WHERE w > 3 GROUP BY k WITH RECALL 99% OVER 10 MINUTES AT MOST 1 MINUTE

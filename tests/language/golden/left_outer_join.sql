SELECT a.v, b.v AS w FROM a [5 s] LEFT JOIN b [3 s] ON a.key = b.key AND a.ok AND b.ok WHERE a.v > 1 AND b.v IS NULL

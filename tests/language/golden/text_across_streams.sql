SELECT concat(a.name, '/', b.name) AS both
FROM a [5 s], b [5 s]
WHERE upper(a.name) = upper(b.name) AND (a.name LIKE 'x%' OR length(a.name) + a.key > b.key)

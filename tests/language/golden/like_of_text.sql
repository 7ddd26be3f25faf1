SELECT upper(name) || '-' || key AS label, name NOT ILIKE 'a!_%' ESCAPE '!' AS odd
FROM s
WHERE name LIKE 'x%' AND name BETWEEN 'a' AND 'f' AND length(trim(name)) > 2

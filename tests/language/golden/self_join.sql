-- everyone near someone else
SELECT * FROM positions AS p [5 SEC], positions q ['5 seconds']
WHERE dist(p.x, p.y, q.x, q.y) < 5 /* metres */ AND p.id <> q.id;

SELECT hour(ts) AS h, EXTRACT(DOW FROM ts) AS dow, date_part('SECOND', ts) AS fraction, date_trunc('MON', ts) AS month,
       ts + INTERVAL 5 MINUTES AS later, ts - INTERVAL '1 month 2 days' AS earlier, INTERVAL '1' WEEK + ts AS next
FROM s
WHERE ts - INTERVAL 1 HOUR > TIMESTAMP '2024-01-01' AND ts + INTERVAL 1 YEAR > TIMESTAMP '2024-01-01'

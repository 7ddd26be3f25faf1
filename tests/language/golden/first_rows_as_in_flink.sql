SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rownum
  FROM (
    SELECT window_start, window_end, name, SUM(v) AS price, COUNT(*) AS cnt
    FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
    GROUP BY window_start, window_end, name
  )
) WHERE rownum <= 3

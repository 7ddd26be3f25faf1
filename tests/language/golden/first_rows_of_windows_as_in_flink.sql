SELECT ts, v, rn FROM (
  SELECT ts, v, name, window_start, window_end,
    ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) rn
  FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
) WHERE rn < 3

SELECT b.key, b.num FROM (
  SELECT key, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY key, window_start, window_end) b
JOIN (SELECT MAX(c.num) AS maxn, c.starttime, c.endtime FROM (
  SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY key, window_start, window_end) c
  GROUP BY c.starttime, c.endtime) m
ON b.starttime = m.starttime AND b.endtime = m.endtime AND b.num >= m.maxn

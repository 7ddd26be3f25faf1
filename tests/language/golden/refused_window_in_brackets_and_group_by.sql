SELECT COUNT(*) FROM s [5 MIN] GROUP BY window(ts, '5 minutes')

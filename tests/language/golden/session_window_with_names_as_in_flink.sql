SELECT key, name, COUNT(*) AS n FROM SESSION(DATA => TABLE s PARTITION BY key, name, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '5' MINUTES)
GROUP BY key, name, window_start, window_end

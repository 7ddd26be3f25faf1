SELECT L.v FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '5' MINUTES) L JOIN TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '5' MINUTES) R
ON L.key = R.key AND L.window_start = R.window_start AND L.window_end = R.window_end

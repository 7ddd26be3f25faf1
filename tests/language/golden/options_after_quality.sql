SELECT v FROM s WITH NO WAIT OPTIONS (initial_slack = 2 SECONDS, MAX_AHEAD = '1 hour', idle_timeout = 30 SECONDS)

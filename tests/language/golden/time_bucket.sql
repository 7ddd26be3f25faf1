SELECT time_bucket('5 minutes', ts) AS begins, v FROM s WHERE time_bucket('1 hour', ts) < ts

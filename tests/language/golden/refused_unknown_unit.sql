SELECT date_trunc('eon', ts) FROM s

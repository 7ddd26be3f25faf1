SELECT within.v FROM a within [5 SECONDS] JOIN b match_condition [5 SECONDS] ON within.key = match_condition.key

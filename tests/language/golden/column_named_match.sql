SELECT match, rate FROM (SELECT key AS match, v AS rate FROM s) t WHERE match = 1 AND rate > match

SELECT o.v, r.v AS rate FROM a o LEFT OUTER JOIN b FOR SYSTEM_TIME AS OF o.ts r ON o.key = r.key

SELECT o.v, r.v AS rate FROM a o JOIN b FOR SYSTEM_TIME AS OF o.v AS r ON o.key = r.key

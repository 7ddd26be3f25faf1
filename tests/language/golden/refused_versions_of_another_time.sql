SELECT o.v, r.v AS rate FROM a o JOIN b FOR SYSTEM_TIME AS OF o.ts - INTERVAL 1 HOUR AS r ON o.key = r.key

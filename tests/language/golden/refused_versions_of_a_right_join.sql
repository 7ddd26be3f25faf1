SELECT o.v, r.v AS rate FROM a o RIGHT JOIN b FOR SYSTEM_TIME AS OF o.ts AS r ON o.key = r.key

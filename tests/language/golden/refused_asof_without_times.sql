SELECT a.v, b.v AS then FROM a ASOF JOIN b ON a.key = b.key

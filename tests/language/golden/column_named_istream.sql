SELECT istream FROM (SELECT ISTREAM v AS istream FROM s) t

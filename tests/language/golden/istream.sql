SELECT ISTREAM a.v, b.v AS w FROM a [5 s], b [5 s] WHERE a.key = b.key

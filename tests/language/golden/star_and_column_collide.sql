SELECT b.*, a.key FROM a [1 s], b [1 s]

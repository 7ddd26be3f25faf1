SELECT path.v FROM a path [5 s], b dwindow [5 s] WHERE path.v = dwindow.v

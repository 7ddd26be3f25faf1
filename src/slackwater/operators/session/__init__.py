"""Session windows: a window for as long as the tuples of a key follow each other closely."""

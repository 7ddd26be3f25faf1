"""The geometry of windows: panes of aggregate windows."""

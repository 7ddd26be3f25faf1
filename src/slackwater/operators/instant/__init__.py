"""Queries over instantaneous windows: what stands in the windows, and two engines that compute a tree from it."""

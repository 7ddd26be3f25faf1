"""Relational algebra over instantaneous windows: what a query computes at every slide, whichever engine computes it."""

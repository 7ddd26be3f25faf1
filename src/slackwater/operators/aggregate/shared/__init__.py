"""Panes kept once for several window aggregates."""

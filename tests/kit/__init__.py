"""Slow oracles, traces and laws: what tests believe a kernel by."""

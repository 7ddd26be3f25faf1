"""Which engine computes which operator of a query over instantaneous windows: sizes, costs, and a search in two phases.

References: 004 §6.3.
"""

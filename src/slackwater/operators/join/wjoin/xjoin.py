"""XJoin, adapted to windows: hash buckets that are cleaned only every 10,000 tuples.

It is the loop of the ripple join over buffers that are cut into buckets, which the buffers themselves know. What XJoin
does with memory that overflows to disk is left out, as in the report.

References: 002 §4.3, Fig. 8; Urhan, Franklin: XJoin, IEEE Data Engineering Bulletin 23(2), 2000.
"""

from __future__ import annotations

from slackwater.operators.join.wjoin.ripple import join_run

__all__ = ["join_run"]

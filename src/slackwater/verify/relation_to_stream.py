"""With which timestamps a true result of a join leaves, in SQL.

Invariant: a result is in force from the greatest of its members' times until the first of them is older than its
window allows. It leaves when it comes into force (ISTREAM), at the first microsecond it is in force no more (DSTREAM),
or at every multiple of the period while it is (RSTREAM), once for each.
"""

from __future__ import annotations

from slackwater.core.results import DSTREAM, ISTREAM
from slackwater.language.bound import JoinQuery


def moments_of(query: JoinQuery) -> str:
    """The timestamp of a combination, of which `ts_<i>` are known; where it leaves several times, one row for each."""
    made = f"greatest({', '.join(f'ts_{i}' for i in range(len(query.streams)))})"
    if query.out.kind == ISTREAM:
        return made
    until = f"least({', '.join(f'ts_{i} + {stream.range}' for i, stream in enumerate(query.streams))})"
    if query.out.kind == DSTREAM:
        return f"{until} + 1"
    every = query.out.every
    return f"unnest(range(sw_floor({made} + {every} - 1, {every}), {until} + 1, {every}))"

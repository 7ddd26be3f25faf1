"""The six queries that were asked of smart plugs, and comparisons of averages over any number of windows.

A load measurement is a tuple with property 1; its value is in watts. A plug is known by house, household and number.

Invariant: all windows slide by one second, and every window is filtered by the property alone.

References: 004 §6.4 (Q1-Q6), §6.4.1 (the joins of Table 6.1).
"""

from __future__ import annotations

from collections.abc import Sequence

from papers.workloads.plugs import LOAD

_PLUG = ("house", "household", "plug")


def _window(minutes: int) -> str:
    return f"plugs [RANGE {minutes} MINUTE{'S' * (minutes > 1)} SLIDE 1 SECOND]"


def _per_plug(minutes: int, *aggregates: str) -> str:
    """A sub-query: aggregates of the load of every plug."""
    listed = ", ".join(_PLUG)
    of_loads = f"FROM {_window(minutes)} WHERE property = {LOAD} GROUP BY {listed}"
    return f"(SELECT {listed}, {', '.join(aggregates)} {of_loads})"


def _same_plug(left: str, right: str) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in _PLUG)


def _above(bound: str, aggregate: str, told: str = "COUNT(*) AS high") -> str:
    """For each plug, how many loads of five minutes are above what an aggregate of them says, or what else is told of
    these loads."""
    keys = ", ".join(f"p.{name}" for name in _PLUG)
    return (
        f"SELECT {keys}, {told}\n"
        f"FROM {_window(5)} p,\n     {_per_plug(5, aggregate)} m\n"
        f"WHERE p.property = {LOAD} AND {_same_plug('p', 'm')} AND p.value > {bound}\n"
        f"GROUP BY {keys}"
    )


def averages_over(minutes: Sequence[int]) -> str:
    """For each plug, its average loads within several lengths of time, side by side.

    >>> averages_over([1, 5]).splitlines()[0]
    'SELECT a1.house, a1.household, a1.plug, a1.average AS average_1, a5.average AS average_5'
    """
    first, *others = [f"a{length}" for length in minutes]
    listed = [*(f"{first}.{name}" for name in _PLUG), *(f"a{n}.average AS average_{n}" for n in minutes)]
    entries = [f"{_per_plug(length, 'AVG(value) AS average')} a{length}" for length in minutes]
    joined = " AND ".join(_same_plug(first, other) for other in others)
    below = ",\n     ".join(entries)
    return f"SELECT {', '.join(listed)}\nFROM {below}\nWHERE {joined}"


PLUG_QUERIES = {
    "q1": _above("0.9 * m.highest", "MAX(value) AS highest"),
    "q2": _above("m.average", "AVG(value) AS average"),
    "q3": (
        f"SELECT {', '.join(f'x.{name}' for name in _PLUG)}, x.highest AS highest_5, y.highest AS highest_1,"
        " x.average AS average_5, y.average AS average_1\n"
        f"FROM {_per_plug(5, 'MAX(value) AS highest', 'AVG(value) AS average')} x,\n"
        f"     {_per_plug(1, 'MAX(value) AS highest', 'AVG(value) AS average')} y\n"
        f"WHERE {_same_plug('x', 'y')}"
    ),
    "q4": averages_over((5, 1)),
    "q5": (
        "SELECT house, household, MAX(total) AS most\n"
        f"FROM {_per_plug(5, 'SUM(value) AS total')} t\nGROUP BY house, household"
    ),
    "q6": averages_over((1, 3, 5)),
}
"""Q1 to Q6; each can be followed by a quality, as in `PLUG_QUERIES["q1"] + " WITH DELAY 2 SECONDS"`."""

HOLISTIC_PLUG_QUERIES = {
    "median": _above("0.1 * m.highest", "MAX(value) AS highest", "MEDIAN(p.value) AS middle"),
    "distinct": _above("0.1 * m.highest", "MAX(value) AS highest", "COUNT(DISTINCT p.value) AS different"),
}
"""Not in the paper: correlated aggregates that need all values of a group, of the loads while a plug is in use."""

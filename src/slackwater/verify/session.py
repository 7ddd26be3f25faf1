"""Sessions, found by walking along the rows of each group.

Invariant: the truth takes all rows in the order of time: a row belongs to the session before it where it is near enough
and the session not full. What a run had to give takes a late row when its watermark was reached, behind the rows in
time that are older: it goes to an open session that it lies in, makes those one that it stands between, or begins one.
It counts nowhere where one of its own would have ended before that watermark, and so had those that it belongs to, as
they were before others came that met the same.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.time import BEFORE_ALL
from slackwater.language.bound import SessionWindow


@dataclass
class _Session:
    """The event times at its ends, and its rows."""

    first: int
    last: int
    rows: list[int]
    starts: list[tuple[int, int]]
    """What watermark each row met, and its event time."""

    def began(self, met: int) -> float:
        """Its first event time, before rows came that met this watermark."""
        return min((ts for then, ts in self.starts if then < met), default=math.inf)


def session_rows(connection: Any, window: SessionWindow, keys: Sequence[str], numbered: str, late_ones: bool) -> str:
    """A SELECT of the numbered rows with their session (`nth`) and its end (`closes`), without those in none;
    `late_ones`: late rows count as if they had been in time."""
    order = f"dense_rank() OVER (ORDER BY {', '.join(keys)})" if keys else "1"
    met = f"CAST({BEFORE_ALL} AS BIGINT)" if late_ones else "met_0"
    rows = connection.execute(
        f"SELECT number, ts, met, key FROM (SELECT number, ts_0 AS ts, {met} AS met, place_0, {order} AS key"
        f" FROM ({numbered})) ORDER BY greatest(ts, met), met = {BEFORE_ALL}, place_0"
    ).fetchnumpy()
    nth, closes = np.full(len(rows["number"]), -1, np.int64), np.zeros(len(rows["number"]), np.int64)
    walked = zip(*(rows[name].tolist() for name in ("number", "ts", "met", "key")), strict=True)
    for n, session in enumerate(_walk(window, walked)):
        nth[session.rows], closes[session.rows] = n, _end(window, session.first, session.last)
    connection.execute("CREATE OR REPLACE TEMP TABLE inside (number BIGINT, nth BIGINT, closes BIGINT)")
    connection.register("found", pa.table({"number": np.arange(len(nth)), "nth": nth, "closes": closes}))
    connection.execute("INSERT INTO inside SELECT number, nth, closes FROM found WHERE nth >= 0")
    connection.unregister("found")
    return f"SELECT * FROM ({numbered}) JOIN inside USING (number)"


def _end(window: SessionWindow, first: int, last: int) -> int:
    return last + window.gap if window.most is None else min(last + window.gap, first + window.most)


def _fits(window: SessionWindow, first: int, last: int) -> bool:
    return window.most is None or last - first < window.most


def _walk(window: SessionWindow, rows: Iterator[tuple[int, int, int, int]]) -> list[_Session]:
    """The sessions of rows (number, event time, watermark met, key) in the order in which they were taken in.

    >>> found = _walk(SessionWindow(5), iter([(0, 1, BEFORE_ALL, 7), (2, 9, BEFORE_ALL, 7), (1, 5, 8, 7)]))
    >>> [(one.first, one.last, one.rows) for one in found]
    [(1, 1, [0]), (5, 9, [1, 2])]
    """
    of_key: dict[int, list[_Session]] = {}
    ended: list[_Session] = []
    for number, ts, met, key in rows:
        known = of_key.setdefault(key, [])
        if met == BEFORE_ALL:
            newest = max(known, key=lambda one: one.first, default=None)
            if newest is not None and ts <= newest.last + window.gap and _fits(window, newest.first, ts):
                newest.last = max(newest.last, ts)
                newest.rows.append(number)
            else:
                # Whatever comes now meets a watermark behind what has ended.
                ended += (one for one in known if _end(window, one.first, one.last) < ts)
                known[:] = [one for one in known if _end(window, one.first, one.last) >= ts]
                known.append(_Session(ts, ts, [number], [(met, ts)]))
            continue
        can = [one for one in known if _end(window, one.first, one.last) >= met]
        if ts + window.gap < met and not any(one.began(met) <= ts + window.gap for one in can):
            continue
        own = _Session(ts, ts, [number], [(met, ts)])
        around = [one for one in can if one.first <= ts <= one.last + window.gap and _fits(window, one.first, ts)]
        if around:
            home = max(around, key=lambda one: one.first)
            own = _Session(home.first, max(home.last, ts), [number, *home.rows], [*home.starts, (met, ts)])
            known.remove(home)
            can.remove(home)
        for one in sorted(can, key=lambda one: one.first, reverse=True):
            first, last = min(own.first, one.first), max(own.last, one.last)
            near = one.first <= own.last + window.gap and own.first <= one.last + window.gap
            if near and _fits(window, first, last) and _end(window, first, last) >= met:
                own = _Session(first, last, [*own.rows, *one.rows], [*own.starts, *one.starts])
                known.remove(one)
        if _end(window, own.first, own.last) >= met:
            known.append(own)
    return [*ended, *(one for known in of_key.values() for one in known)]

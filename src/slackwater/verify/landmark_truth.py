"""Which rows are in which landmark window, found by walking from landmark to landmark.

Invariant: a window begins at the first row after the end of the last one of which START is true, and ends with the
first row from there on of which END is. Without END there is one, and an answer at each multiple of SLIDE behind a row.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.language.bound import LandmarkWindow
from slackwater.verify.join_truth import MOST_COMPARISONS
from slackwater.verify.sql import Renderer


def landmark_windows(connection: Any, window: LandmarkWindow, render: Renderer, numbered: str) -> str:
    """A SELECT of the numbered rows, once for each window (`nth`) they are in; `closes` where its end is no row's."""
    ends = "false" if window.end is None else render.all_of([window.end])
    found = connection.execute(
        f"SELECT coalesce({render.all_of([window.start])}, false) AS starts, coalesce({ends}, false) AS ends"
        f" FROM ({numbered}) ORDER BY number"
    ).fetchnumpy()
    starts, closing = np.flatnonzero(found["starts"]), np.flatnonzero(found["ends"])
    if window.slide is not None:
        return _running(connection, window.slide, numbered, int(starts[0]) if len(starts) else len(found["starts"]))
    nth = np.full(len(found["starts"]), -1, np.int64)
    at, count = 0, 0
    while (first := int(np.searchsorted(starts, at))) < len(starts):
        begin = int(starts[first])
        last = int(np.searchsorted(closing, begin))
        at = int(closing[last]) + 1 if last < len(closing) else len(nth)
        nth[begin:at] = count
        count += 1
    connection.execute("CREATE OR REPLACE TEMP TABLE inside (number BIGINT, nth BIGINT)")
    connection.register("found", pa.table({"number": np.arange(len(nth)), "nth": nth}))
    connection.execute("INSERT INTO inside SELECT number, nth FROM found WHERE nth >= 0")
    connection.unregister("found")
    return f"SELECT *, CAST(NULL AS BIGINT) AS closes FROM ({numbered}) JOIN inside USING (number)"


def _running(connection: Any, slide: int, numbered: str, begin: int) -> str:
    since = f"SELECT * FROM ({numbered}) WHERE number >= {begin}"
    answers = f"SELECT DISTINCT sw_floor(ts_0, {slide}) + {slide} AS closes FROM ({since})"
    (comparisons,) = connection.execute(
        f"SELECT (SELECT count(*) FROM ({since})) * (SELECT count(*) FROM ({answers}))"
    ).fetchone()
    if comparisons > MOST_COMPARISONS:
        raise UsageError(
            f"the true answer needs {comparisons:.1e} comparisons, more than verify makes ({MOST_COMPARISONS:.0e});"
            " verify a shorter piece of the input, or answer less often"
        )
    return f"SELECT *, closes AS nth FROM ({since}) JOIN ({answers}) ON ts_0 < closes"

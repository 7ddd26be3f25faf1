"""What recent windows needed, whether they got it, and the margin that follows.

Invariant: every window with tuples enters once, when the clock passes its end, and stands in the bin of its need as far
as it is known; `weights` has each window that entered, faded by age, in that bin. A closed window whose need is larger
than the slack it was closed under has failed, whenever that comes out, and is counted as failed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.compiled import in_place, inner
from slackwater.disorder.quality.error_losses import (
    CHANGED,
    Books,
    Watch,
    last_ended,
    last_piece,
    needed_bin,
    newest_piece,
)
from slackwater.disorder.quality.keyed_sums import NO_LINE, NONE, place_of
from slackwater.disorder.quality.needed_slack import bin_met_by, edge_of, least_bin, no_weights
from slackwater.model.batch import Floats, Words

# Places in `Needs.marks`: the newest window that entered, was closed, was judged; how many have entered; and the bin of
# the slack that was last chosen.
ENTERED, CLOSED, JUDGED, SERIAL, USUAL = range(5)
# Places in `Needs.scalars`: the margin, and how often lately windows turned out to need more than the usual slack.
MARGIN, STRUCK = range(2)
LARGEST_MARGIN = 0.9
SUMMARIES = ("weights", "scalars", "marks")
"""The fields of `Needs` that are not by window; they come last."""
WINDOWS_A_SLICE = 64
"""Windows that are persisted together."""
OPEN = -1
UNKNOWN, FINE, FAILED = range(3)


class Needs(NamedTuple):
    """By place in the ring of windows, which is as long as that of the late tuples; and what sums it up."""

    number: Words
    into: Words
    """The bin of the need."""
    serial: Words
    met: Words
    """The largest bin that the slack at closing met; OPEN before."""
    verdict: Words
    weighs: Words
    """1 while the window is among `weights`, 0 once it has been forgotten."""
    weights: Floats
    scalars: Floats
    marks: Words


class Judging(NamedTuple):
    """How windows fade, how they move the margin, and when the past is forgotten."""

    keep: float
    gain: float
    aim: float
    """The share of failures at which the margin rests."""
    delta: float
    """The share of failures that is allowed."""
    settling: int
    """Microseconds after which, beyond twice the slack, a window that has not failed is taken for fine."""
    calming: float
    """How much of the alarm is left after a step."""
    alarm: float
    """From how many steps on, that brought windows which need more, delays have changed."""
    newest: int
    """How many windows are kept then."""


def no_needs(windows: int, margin: float) -> Needs:
    """Nothing known."""
    none = np.zeros(windows, np.int64)
    return Needs(
        np.full(windows, NO_LINE, np.int64), none, none.copy(), none.copy(), none.copy(), none.copy(),
        no_weights(), np.array([margin, 0.0]), np.array([NO_LINE, NO_LINE, NO_LINE, 0, 0]),
    )  # fmt: skip


@in_place
def slack_for_needs(
    w: Watch, b: Books, n: Needs, j: Judging, allowed: Floats, scratch: Floats, clock: int, frontier: int, slack: int
) -> int:
    """One adaptation: note what has ended, come late, been closed and settled under this slack; the slack to be."""
    ended = last_ended(w, clock)
    enter(w, b, n, j, ended)
    struck = put_right(w, b, n, j, allowed, scratch[0], scratch[1])
    close(n, j, last_ended(w, frontier), bin_met_by(slack, w.unit))
    judge(n, j, last_ended(w, clock - 2 * slack - j.settling))
    n.scalars[STRUCK] = j.calming * n.scalars[STRUCK] + (1.0 if struck > 0 else 0.0)
    if n.scalars[STRUCK] > j.alarm:
        # Of a window younger than the slack it is not known whether that would do.
        forget(n, last_ended(w, clock - slack), j.newest)
        n.scalars[STRUCK] = 0.0
    n.marks[USUAL] = least_bin(n.weights, (1.0 - n.scalars[MARGIN]) * j.delta)
    return int(edge_of(n.marks[USUAL], w.unit))


@inner
def put_in(n: Needs, j: Judging, window: int) -> None:
    """A window enters, as far as is known without a need."""
    at = window & (len(n.number) - 1)
    for b in range(len(n.weights)):
        n.weights[b] *= j.keep
    n.weights[0] += 1.0
    n.marks[SERIAL] += 1
    n.number[at], n.into[at], n.serial[at], n.verdict[at] = window, 0, n.marks[SERIAL], UNKNOWN
    n.weighs[at] = 1
    # One that got its first tuple after it should have been closed was never let out.
    n.met[at] = 0 if window <= n.marks[CLOSED] else OPEN


@in_place
def enter(w: Watch, b: Books, n: Needs, j: Judging, last: int) -> None:
    """The windows up to `last` have ended."""
    first = max(n.marks[ENTERED] + 1, last - len(n.number) + 1)
    if first > last:
        return
    newest = newest_piece(w, b.totals, first)
    for window in range(first, last + 1):
        # A slide adds two pieces.
        for piece in range(last_piece(w, window) - 1, last_piece(w, window) + 1):
            if place_of(b.totals, piece) != NONE:
                newest = max(newest, piece)
        if newest >= 2 * window:
            put_in(n, j, window)
    n.marks[ENTERED] = last


@in_place
def put_right(w: Watch, b: Books, n: Needs, j: Judging, allowed: Floats, total: Floats, missing: Floats) -> int:
    """Late tuples have come for some windows: what do these need now? Returns how many now need more than usual."""
    struck = 0
    for i in range(b.marks[CHANGED]):
        window = b.changed[i]
        at = window & (len(n.number) - 1)
        b.is_changed[at] = 0
        if n.number[at] > window:
            continue
        if n.number[at] < window:
            put_in(n, j, window)
        into = needed_bin(w, b, window, allowed, total, missing)
        if n.weighs[at] == 1 and into != n.into[at]:
            weight = j.keep ** (n.marks[SERIAL] - n.serial[at])
            n.weights[n.into[at]] -= weight
            n.weights[into] += weight
        struck += 1 if n.into[at] <= n.marks[USUAL] < into else 0
        n.into[at] = into
        judge_one(n, j, at)
    b.marks[CHANGED] = 0
    return struck


@inner
def judge_one(n: Needs, j: Judging, at: int) -> None:
    """Count a closed window as failed if it needed more than it got."""
    if n.met[at] != OPEN and n.into[at] > n.met[at] and n.verdict[at] != FAILED:
        back = step_down(j) if n.verdict[at] == FINE else 0.0
        n.scalars[MARGIN] = min(LARGEST_MARGIN, n.scalars[MARGIN] + j.gain + back)
        n.verdict[at] = FAILED


@inner
def step_down(j: Judging) -> float:
    """By how much a window that was fine lowers the margin."""
    return j.gain * j.aim / (1.0 - j.aim)


@in_place
def close(n: Needs, j: Judging, last: int, met: int) -> None:
    """The windows up to `last` are closed, under a slack that met all needs up to a bin."""
    for window in range(max(n.marks[CLOSED] + 1, last - len(n.number) + 1), last + 1):
        at = window & (len(n.number) - 1)
        if n.number[at] == window:
            n.met[at] = met
            judge_one(n, j, at)
    n.marks[CLOSED] = max(n.marks[CLOSED], last)


@in_place
def judge(n: Needs, j: Judging, last: int) -> None:
    """Closed windows up to `last` have settled: those that have not failed are fine."""
    last = min(last, n.marks[CLOSED])
    for window in range(max(n.marks[JUDGED] + 1, last - len(n.number) + 1), last + 1):
        at = window & (len(n.number) - 1)
        if n.number[at] == window and n.verdict[at] == UNKNOWN:
            n.verdict[at] = FINE
            n.scalars[MARGIN] = max(0.0, n.scalars[MARGIN] - step_down(j))
    n.marks[JUDGED] = max(n.marks[JUDGED], last)


@in_place
def forget(n: Needs, last: int, wanted: int) -> None:
    """The past says nothing any more: keep so many of the newest windows up to `last`, and those after it."""
    for b in range(len(n.weights)):
        n.weights[b] = 0.0
    for at in range(len(n.weighs)):
        n.weighs[at] = 0
    kept, window = 0, n.marks[ENTERED]
    while kept < wanted and window > n.marks[ENTERED] - len(n.number):
        at = window & (len(n.number) - 1)
        if n.number[at] == window:
            n.weights[n.into[at]] += 1.0
            n.serial[at] = n.marks[SERIAL]
            n.weighs[at] = 1
            kept += 1 if window <= last else 0
        window -= 1


def needs_as_arrays(n: Needs) -> dict[str, npt.NDArray[Any]]:
    """All state; the ring by slices of windows, without those that hold none."""
    found: dict[str, npt.NDArray[Any]] = {name: getattr(n, name).copy() for name in SUMMARIES}
    ring = np.stack(n[: len(n) - len(SUMMARIES)])
    for begin in range(0, ring.shape[1], WINDOWS_A_SLICE):
        one = ring[:, begin : begin + WINDOWS_A_SLICE]
        if (one[0] != NO_LINE).any():
            found[f"from_{begin}"] = one.copy()
    return found


def needs_of(windows: int, arrays: Mapping[str, npt.NDArray[Any]]) -> Needs:
    """What `needs_as_arrays` gave, with a ring of so many windows."""
    n = no_needs(windows, 0.0)._replace(**{name: np.array(arrays[name]) for name in SUMMARIES})
    for name, one in arrays.items():
        if name.startswith("from_"):
            begin = int(name.removeprefix("from_"))
            for kept, values in zip(n, one, strict=False):
                kept[begin : begin + one.shape[1]] = values
    return n

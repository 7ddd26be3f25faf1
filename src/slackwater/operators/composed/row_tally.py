"""How many windows of the top aggregate were within the bound, by the true rows and those that reached it.

Invariant: a window is counted once, when it is old; a true row that becomes known after that is beyond the retention
horizon. Younger windows are judged anew each time one asks. A window counts as a whole: the worst of its groups
decides. What rows do to an answer that is no sum and no extreme is not known: a window that lacks any is off, and may
be good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.measured import WINDOWS, MeasuredQuality
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, SECOND
from slackwater.disorder.meters import Asked
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.composed.error_rows import judge_rows, note_made, note_sums
from slackwater.operators.composed.extreme_rows import EXTREMES, Extremes
from slackwater.quality.error.answers import EXACT, ROUNDING
from slackwater.quality.error.window_losses import CLOCK, Watch, WindowLedger, last_to_count
from slackwater.quality.stats.keyed_sums import NO_LINE, Table, as_chunks, refilled, table, tidied

FIRST_CAPACITY = 256
NOTHING = np.nan
"""No sum is further off than this."""
STEP = 2 * SECOND
"""How far the clock may go between two counts without a window being lost sight of."""


class RowTally:
    """Windows within the bound and windows off, since the beginning."""

    def __init__(
        self, watch: Watch, aggregates: Sequence[Asked], components: int, lines: int, retention: int, coarse: bool,
        bound: float,
    ) -> None:  # fmt: skip
        self._watch, self._coarse, self._bound = watch, coarse, max(bound, ROUNDING)
        functions = [one.function for one in aggregates]
        self._told = np.array([bound if one in EXACT else NOTHING if one in EXTREMES else np.inf for one in functions])
        """What sums may be off by, NOTHING where others tell."""
        self._extremes = Extremes(aggregates, lines)
        self._reach = retention - min(retention // 4, STEP)
        self._made: Table = table(FIRST_CAPACITY, 0, lines, components)
        self._scratch = np.zeros((3, components))
        self._windows, self._off, self._doubtful, self._count_only = 0, 0, 0, NO_LINE
        self._unknown = np.zeros(2, np.int64)
        """True rows of windows that were counted already, and how many windows they may have spoiled."""
        self._watermark = BEFORE_ALL
        self.known_from = BEFORE_ALL
        """Windows that begin before are not judged."""
        self.factors: Callable[[int, int], Floats] = lambda first, last: np.ones(max(0, last + 1 - first))
        """What the answers of the windows between two numbers were multiplied by."""

    def took(self, words: Words) -> None:
        """True rows have become known."""
        ts = words[TS]
        self._extremes.note(self._watch, "true", words)
        if self._count_only != NO_LINE:
            first = (ts - self._watch.range) // self._watch.slide + 1
            spoilt = np.minimum(ts // self._watch.slide, self._count_only) - first + 1
            self._unknown += np.array([np.count_nonzero(spoilt > 0), spoilt[spoilt > 0].sum()])

    def observe_batch(self, run: OrderedBatch) -> None:
        """What the top has been given, and how far it has come."""
        words = np.ascontiguousarray(run.words[:, run.words[TS] >= self.known_from])
        self._extremes.note(self._watch, "made", words)
        done = 0
        while done < words.shape[1]:
            done = note_made(self._watch, self._made, words, words.view(np.float64), done)
            if done < words.shape[1]:
                self._made = tidied(self._made, FIRST_CAPACITY, 0)
        self._watermark = max(self._watermark, run.watermark)

    def take_sums(self, sums: Words) -> None:
        """What the top has been given, as sums."""
        self._made = with_sums(self._made, sums)

    def _last_ended(self, time: int) -> int:
        return (time - self._watch.range) // self._watch.slide

    def count(self, ledger: WindowLedger) -> None:
        """Count the windows for good that have become old enough."""
        last = last_to_count(self._watch, ledger, self._watermark, self._reach)
        if last is not None:
            windows, off, doubtful = self._judge(ledger, last)
            self._windows, self._off = self._windows + windows, self._off + off
            self._doubtful += doubtful
            self._count_only = max(self._count_only, last)

    def _judge(self, ledger: WindowLedger, last: int) -> tuple[int, int, int]:
        """Windows that are not counted yet, up to the last, as far as they are still known."""
        first = max(self._count_only + 1, last - len(ledger.totals.lines), -(-self.known_from // self._watch.slide))
        off = self._extremes.off(self._watch, self._bound, first, last)
        return judge_rows(
            self._watch, ledger.totals, self._made, self._told, self.factors(first, last), self._scratch, self._coarse,
            off, first, last,
        )  # fmt: skip

    def measured(self, target: float, ledger: WindowLedger, unknown: int) -> MeasuredQuality:
        """All windows that have been emitted, by what is known now; so many raw tuples came too late to be counted."""
        clock = int(ledger.marks[CLOCK])
        if BEFORE_ALL in (clock, self._watermark):
            return MeasuredQuality(WINDOWS, target, exact=not np.isinf(self._told).any())
        ended = self._watermark == AFTER_ALL
        last = clock // self._watch.slide if ended else self._last_ended(self._watermark)
        windows, off, doubtful = self._judge(ledger, last)
        off += self._off
        rows, unsure = self._unknown.tolist()
        each = self._watch.range // self._watch.slide + 1
        return MeasuredQuality(
            WINDOWS, target, self._windows + windows - off, off, rows + unknown, float(unsure + unknown * each),
            exact=not np.isinf(self._told).any(), provisional_from=None if ended else clock - self._reach,
            doubtful=doubtful + self._doubtful,
        )  # fmt: skip

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        counts = [self._windows, self._off, self._count_only, self._watermark, self.known_from]
        made = {f"made_{number}": chunk for number, chunk in as_chunks(self._made).items()}
        found = {"counts": np.array(counts), "unknown": self._unknown.copy(), "doubtful": np.array([self._doubtful])}
        return found | made | {f"extreme_{name}": one for name, one in self._extremes.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self._windows, self._off, self._count_only, self._watermark, self.known_from = arrays["counts"].tolist()
        self._unknown[:], self._doubtful = arrays["unknown"], int(arrays["doubtful"][0])
        self._extremes.restore({n.removeprefix("extreme_"): a for n, a in arrays.items() if n.startswith("extreme_")})
        chunks = [chunk for name, chunk in arrays.items() if name.startswith("made_")]
        self._made = refilled(len(self._made.lines), FIRST_CAPACITY, self._scratch.shape[1], chunks)


def with_sums(t: Table, sums: Words) -> Table:
    """A table with more rows, which have been added up by piece."""
    sums, done = np.ascontiguousarray(sums), 0
    while done < sums.shape[1]:
        done = note_sums(t, sums, sums.view(np.float64), done)
        if done < sums.shape[1]:
            t = tidied(t, FIRST_CAPACITY, 0)
    return t

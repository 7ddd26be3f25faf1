"""How many windows of an aggregate were within the bound, by what really was missing from them.

Invariant: `missing` has, by window and group, the tuples that came when the watermark had passed the end of the window;
`answers` what was emitted of it, for the aggregates that sums do not tell of, and what these tuples do to that.
A window is counted once, when it is old, or when time jumps so far that what is known of it must give way; what a
tuple does to it that comes after that is estimated (`error_beyond`). So every window is counted that had a tuple.
Younger ones are judged anew each time one asks. A window counts as a whole: the worst of its groups and aggregates
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place
from slackwater.core.measured import WINDOWS, MeasuredQuality
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, SECOND
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.quality.error.answers import (
    DOUBTFUL,
    EMPTY,
    OFF,
    POSITION,
    WITHIN,
    Answered,
    is_certain,
    note_answers,
    note_late,
    verdict_of,
    width_of,
)
from slackwater.quality.error.beyond_retention import GROUPS_THERE, TUPLES_THERE, VERDICT, OldWindows
from slackwater.quality.error.window_losses import (
    CLOCK,
    NEEDED,
    TUPLES,
    Watch,
    WindowLedger,
    add,
    group_of,
    has_whole_group,
    is_off,
    is_whole_off,
    last_piece,
    last_to_count,
    total_of,
)
from slackwater.quality.stats.keyed_sums import (
    GROUP,
    NEXT,
    NO_LINE,
    NUMBER,
    RECORDS,
    Table,
    as_chunks,
    find,
    first_record,
    found_or_made,
    place_of,
    refilled,
    table,
    tidied,
)

FIRST_CAPACITY = 256
Answers = tuple[Words, Words, Floats]
"""Emitted answers, as an `AnswerLog` has them."""
STEP = 4 * SECOND
"""How far the clock may go between two counts without a window being lost sight of."""


@in_place
def note_missing(
    w: Watch, missing: Table, a: Answered, answers: Table, words: Words, floats: Floats, late: Words,
    watermark_at_arrival: Words, begin: int, counted_up_to: int, beyond: Words,
) -> int:  # fmt: skip
    """Note the tuples numbered `late`; returns how many of them were noted before the table was full.

    `beyond` gets, by late tuple, the first and last of its windows that are counted already or lost sight of.
    """
    most = w.range // w.slide + 2
    for n in range(begin, len(late)):
        if missing.used[RECORDS] + most > len(missing.records):
            return n
        i = late[n]
        ts = words[TS, i]
        group = group_of(w, words, i)
        window = (ts - w.range) // w.slide + 1
        last = min(ts // w.slide, (watermark_at_arrival[i] - w.range) // w.slide)
        beyond[0, n], beyond[1, n] = window, window - 1
        if window <= min(last, counted_up_to):
            beyond[1, n] = min(last, counted_up_to)
            window = counted_up_to + 1
        while window <= last:
            r = found_or_made(missing, window, group)
            if r != NONE:
                add(w, missing.sums, r, words, floats, i)
                of_answer = find(answers, window, group) if place_of(answers, window) != NONE else NONE
                if of_answer != NONE:
                    note_late(a, answers.sums, of_answer, words, floats, i)
            else:
                beyond[1, n] = window
            window += 1
    return len(late)


@in_place
def judged(
    w: Watch, b: WindowLedger, missing: Table, a: Answered, answers: Table, allowed: Floats, factors: Floats,
    total: Floats, first: int, last: int, verdicts: Words,
) -> None:  # fmt: skip
    """Of the windows between two numbers: their verdicts; tuples and groups of its first slide beside. `factors` are
    what their answers were multiplied by.

    `total` is scratch.
    """
    for window in range(first, last + 1):
        n = window - first
        piece, end = 2 * window, last_piece(w, window)
        while piece <= end and place_of(b.totals, piece) == NONE:
            piece += 1
        if piece > end:
            # It may be that one has come too late for it, and is still to be noted.
            verdicts[VERDICT, n] = EMPTY if place_of(missing, window) == NONE else OFF
            continue
        verdicts[VERDICT, n] = WITHIN
        if is_whole_off(w, allowed, factors[n]) and has_whole_group(w, b, missing, window):
            verdicts[VERDICT, n] = OFF
        for own in range(2 * window, 2 * window + 2):
            r = first_record(b.totals, own)
            while r != NONE:
                verdicts[TUPLES_THERE, n] += int(b.totals.sums[r, TUPLES])
                verdicts[GROUPS_THERE, n] += 1
                r = b.totals.records[r, NEXT]
        r = first_record(missing, window)
        while r != NONE:
            group = missing.records[r, GROUP]
            total_of(w, b.totals, window, group, total)
            verdict = OFF if is_off(w, allowed, total, missing.sums[r], factors[n]) else WITHIN
            if verdict == WITHIN and len(a.asked) > 0:
                # An answer that was emitted before its log began is not known.
                found = find(answers, window, group) if place_of(answers, window) != NONE else NONE
                verdict = DOUBTFUL if found == NONE else verdict_of(a, answers.sums, found)
            verdicts[VERDICT, n] = max(verdicts[VERDICT, n], verdict)
            if verdict == OFF:
                break
            r = missing.records[r, NEXT]


class WindowTally:
    """Windows within the bound and windows off, since the beginning."""

    def __init__(self, watch: Watch, answered: Answered, components: int, pieces: int) -> None:
        self._missing = table(FIRST_CAPACITY, 0, 1, components)
        self._answered = answered
        self._answers = table(FIRST_CAPACITY, 0, 1, width_of(answered))
        self._exactly = np.ones(len(watch.judged), np.bool_)
        """Which aggregates are judged by sums."""
        self._exactly[answered.asked[:, POSITION]] = False
        self._total = np.zeros(components)
        self._count_only = NO_LINE
        self._watermark = BEFORE_ALL
        self._begun = NO_LINE
        self.factors: Callable[[int, int], Floats] = lambda first, last: np.ones(max(0, last + 1 - first))
        """What the answers of the windows between two numbers were multiplied by."""
        """Of windows up to this one not all is known, and nothing is said."""
        self._old = OldWindows(cautious=len(answered.asked) > 0)
        self.keep(watch, pieces)

    def keep(self, watch: Watch, pieces: int) -> None:
        """Windows are counted as late as the retention of this allows, and before so many pieces more have come."""
        self._watch = watch
        self._reach = watch.retention - min(watch.retention // 4, STEP)
        self.interval = (watch.retention - self._reach) // 2
        """How often windows should be counted."""
        lines = max(64 + watch.retention // watch.slide, pieces // 2)
        self._missing = tidied(self._missing, FIRST_CAPACITY, 0, lines)
        self._answers = tidied(self._answers, FIRST_CAPACITY, 0, lines)

    def is_far_ahead(self, run: OrderedBatch, answers: Sequence[Answers]) -> bool:
        """Whether late tuples or answers of a run would take the place of others, of windows not counted yet."""
        newest = int(run.ts.max(where=run.late, initial=BEFORE_ALL)) // self._watch.slide
        newest = max([newest, *(int(windows.max()) for windows, _, _ in answers)])
        return newest - len(self._missing.lines) > self._count_only

    def _note_answers(self, windows: Words, keys: Words, summaries: Floats) -> None:
        done = 0
        while done < len(windows):
            done = note_answers(self._answers, windows, keys, summaries, done, self._count_only)
            if done < len(windows):
                lines = self._answers.lines
                lines[lines[:, NUMBER] <= self._count_only, NUMBER] = NO_LINE
                self._answers = tidied(self._answers, FIRST_CAPACITY, 0)

    def observe_batch(self, run: OrderedBatch, answers: Sequence[Answers]) -> None:
        """Note what was emitted, what came too late, and how far windows have been emitted."""
        for some in answers:
            self._note_answers(*some)
        late = np.flatnonzero(run.late)
        if len(late):
            words = np.ascontiguousarray(run.words)
            beyond = np.zeros((2, len(late)), np.int64)
            done = 0
            while done < len(late):
                done = note_missing(
                    self._watch, self._missing, self._answered, self._answers, words, words.view(np.float64), late,
                    run.watermark_at_arrival, done, self._count_only, beyond,
                )  # fmt: skip
                if done < len(late):
                    most = self._watch.range // self._watch.slide
                    self._missing = tidied(self._missing, most + FIRST_CAPACITY, 0)
            beyond[0] = np.maximum(beyond[0], self._begun + 1)
            beyond = beyond[:, beyond[1] >= beyond[0]]
            if beyond.size:
                self._old.touch(beyond)
        self._watermark = max(self._watermark, run.watermark)

    def begin_at(self, clock: int, ledger: WindowLedger) -> None:
        """Begin in the middle of a run, in which nobody has looked so far: with the windows that begin from now on."""
        if clock != BEFORE_ALL:
            self._begun = clock // self._watch.slide
            self._skip(ledger, self._begun)

    def _last_ended(self, time: int) -> int:
        return (time - self._watch.range) // self._watch.slide

    def count(self, ledger: WindowLedger, allowed: Floats) -> None:
        """Count the windows for good that have become old enough."""
        last = last_to_count(self._watch, ledger, self._watermark, self._reach)
        if last is not None:
            self._count(ledger, allowed, last)

    def count_before(self, ts: int, ledger: WindowLedger, allowed: Floats) -> bool:
        """Count the windows in the way of a tuple of this event time, and some more; whether there are any."""
        pieces = len(ledger.totals.lines)
        oldest = 2 * (ts // self._watch.slide) + 2 - pieces
        if oldest <= ledger.marks[NEEDED]:
            return False
        # Of the years that a jump may leave out nothing is known.
        newest, missing = (int(one.lines[:, NUMBER].max()) for one in (ledger.totals, self._missing))
        for known in sorted((newest // 2 if newest != NO_LINE else NO_LINE, missing)):
            self._count(ledger, allowed, min((oldest + pieces // 4) // 2, known))
        self._skip(ledger, (oldest + 1) // 2)
        return True

    def _count(self, ledger: WindowLedger, allowed: Floats, last: int) -> None:
        if last > self._count_only:
            self._old.add(*self._judge(ledger, allowed, last))
            self._skip(ledger, last)

    def _skip(self, ledger: WindowLedger, last: int) -> None:
        """There is nothing left to be counted up to this window."""
        self._count_only = max(self._count_only, last)
        ledger.marks[NEEDED] = 2 * (self._count_only + 1)

    def _judge(self, ledger: WindowLedger, allowed: Floats, last: int) -> tuple[int, Words]:
        """Windows that are not counted yet, up to the last, as far as they are still known; and the first of them."""
        first = max(self._count_only + 1, last - len(ledger.totals.lines))
        verdicts = np.zeros((3, max(0, last + 1 - first)), np.int64)
        by_sums = np.where(self._exactly, allowed, np.inf)
        judged(
            self._watch, ledger, self._missing, self._answered, self._answers, by_sums,
            self.factors(first, last), self._total, first, last, verdicts,
        )  # fmt: skip
        return first, verdicts

    def measured(self, target: float, ledger: WindowLedger, allowed: Floats) -> MeasuredQuality:
        """All windows that have been emitted, by what is known now."""
        clock, exact = int(ledger.marks[CLOCK]), is_certain(self._answered)
        if BEFORE_ALL in (clock, self._watermark):
            return MeasuredQuality(WINDOWS, target, exact=exact)
        ended = self._watermark == AFTER_ALL
        _, verdicts = self._judge(
            ledger, allowed, clock // self._watch.slide if ended else self._last_ended(self._watermark)
        )
        overlap = self._watch.range / self._watch.slide
        old = self._old.lost_windows(float(allowed.min(initial=1.0)), overlap)
        off = int((verdicts[VERDICT] >= DOUBTFUL).sum()) + self._old.off
        doubtful = int((verdicts[VERDICT] == DOUBTFUL).sum()) + self._old.doubtful + old.doubtful
        filled = int((verdicts[VERDICT] != EMPTY).sum()) + self._old.filled
        return MeasuredQuality(
            of=WINDOWS, target=target, good=filled - off - old.spoiled, bad=off + old.spoiled + old.never,
            unknown_late=self._old.late, unsure=old.unsure, doubtful=doubtful, exact=exact,
            provisional_from=None if ended else clock - self._reach,
        )  # fmt: skip

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        missing = {f"missing_{number}": chunk for number, chunk in as_chunks(self._missing).items()}
        answers = {f"answers_{number}": chunk for number, chunk in as_chunks(self._answers).items()}
        old = {f"old_{name}": array for name, array in self._old.as_arrays().items()}
        counts = {"counts": np.array([self._count_only, self._watermark]), "begun": np.array([self._begun])}
        return counts | missing | answers | old

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave, with the retention that was then."""
        (self._count_only, self._watermark), (self._begun,) = arrays["counts"].tolist(), arrays["begun"].tolist()
        lines, width = len(self._missing.lines), width_of(self._answered)
        missing, answers = (
            [chunk for name, chunk in arrays.items() if name.startswith(f"{table}_")]
            for table in ("missing", "answers")
        )
        self._missing = refilled(lines, FIRST_CAPACITY, len(self._total), missing)
        self._answers = refilled(lines, FIRST_CAPACITY, width, answers)
        self._old.restore({n.removeprefix("old_"): a for n, a in arrays.items() if n.startswith("old_")})

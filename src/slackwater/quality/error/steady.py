"""The steady controller for aggregates: the slack that all but delta of the recent windows needed.

Every window has a needed slack: the least with which its answer would have been within the bound. It can be computed
after the fact, exactly, from the late tuples that came for the window and what they weigh (`window_losses`). So

1. K is the least slack that meets the need of all but a share (1 - m) delta of the remembered windows. What a window
   needs is known only when it is older than that, and counted accordingly.
2. m is the margin. Every window that fails raises it, every other lowers it a little, such that it rests where a little
   less than delta of the windows fail.
3. Growth: once the running period (a minute, or the range of a window) has spent a third of what it may fail, and
   windows turn out to need more than K again and again, K is what they turn out to need, and ahead of that. This is
   over when nothing of the kind has come out for a while: seconds after a burst.
4. A drop: a block of seconds older than two periods, in which most windows needed twice what the last two periods ask
   for, was another regime and is forgotten. A burst spoils less of a block, and is remembered.

K never exceeds the cap. Where the cap is too little, K is the least that does nearly as well.

Invariant: nothing is modelled for COUNT, SUM and AVG. For other aggregates it is not known what a value would have
been without a given tuple, and the share of a window that may be missing comes from the coverage thresholds. Of several
aggregates and several groups the worst decides; a group costs memory and time like the operator's own partial results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Words
from slackwater.core.measured import MeasuredQuality
from slackwater.core.options import Options
from slackwater.core.outlook import Outlook
from slackwater.core.quality import RelativeError, default_cap
from slackwater.core.time import BEFORE_ALL, MILLISECOND, MINUTE, SECOND
from slackwater.core.trade_off import WINDOWS, TradeOff, trade_off_of
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.disorder.meters import Report, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.quality.error.answers import EXACT
from slackwater.quality.error.estimates import NEEDS, SCALED, WAYS, Estimates
from slackwater.quality.error.meter import Answers
from slackwater.quality.error.quantile_slack import edge_of, least_bin
from slackwater.quality.error.remembered_windows import (
    BOUND,
    CHOICES,
    INTO,
    KNOWN,
    MARGIN,
    NOT_YET,
    NUMBER,
    REACHED,
    SHORT,
    SPENT,
    WANTED,
    WEIGHTS,
    Judging,
    RequiredSlack,
    no_required_slack,
    required_as_arrays,
    required_slack_of,
)
from slackwater.quality.error.required_slack import (
    changed_windows,
    filled_windows,
    learn_and_choose,
    slack_for_reported,
)
from slackwater.quality.error.threshold import Thresholds
from slackwater.quality.error.window_losses import CHANGED
from slackwater.quality.error.windows import MOST_WINDOWS, WatchesWindows, WindowLosses

INTERVAL = SECOND
"""How often slack is chosen anew: every choice cuts the stream's batches."""
ALERT = 250 * MILLISECOND
"""The same once a period has spent so much that growth is looked for."""
PERIOD = MINUTE
"""In which a share delta of the windows may fail, or in the range of a window if that is longer."""
MEMORY = 10 * MINUTE
STRAGGLER = 20.0
"""One straggler, which spoils every window it belongs to, may weigh at most delta over this."""
FEWEST = 40.0
"""The memory has at least this many windows that may fail, and a period three."""
AIM = 0.7
"""The share of delta at which the margin rests."""
GAIN = 20.0
FIRST_MARGIN = 0.5
AHEAD = 0.7
"""How far ahead of growth, as a share of what windows turn out to need, once a period has spent all it may."""
TIMES = 2.0
"""From how many times as much on, what was needed before is another regime."""
SPENDING = 1 / 3
"""Once this much of what a period may fail is spent, growth is looked for."""
NEWEST = 3 * SECOND
"""For how long what came out counts then; four choices at least."""
BLOCK = 10 * SECOND
"""What is forgotten at once; four ranges of a window at least, because a burst spoils more than one."""
PATIENCE = 3.0
"""In periods: the cap must have been too little for some two thirds of this before the target is out of reach."""
FILLED = "filled"
"""In a report: windows with tuples that have ended. Beside it NEEDS: (window, bin) where what one needs has changed."""
NO_WORDS = np.zeros((1, 0), np.int64)


class SteadyError(WatchesWindows):
    """Slack for a bound on the error of an aggregate."""

    learns = True

    def __init__(self, target: RelativeError, options: Options) -> None:
        self.target, self._options = target, options
        self.slack = options.initial_slack if target.at_most is None else min(options.initial_slack, target.at_most)
        self.next_adaptation = self._count_due = BEFORE_ALL
        self._pending: DelayObservations | None = None
        """Arrivals that are not noted yet: that is cheaper together with the next choice."""
        self._heard: list[Report] | None = None
        """What all shards have reported of the last epoch; None where there is one alone."""

    def watch(self, watched: Watched) -> None:
        """Hear which windows there are."""
        self._unit = max(1, self._options.granularity // 10)
        kept = self._options.retention
        self._losses = WindowLosses(
            watched, self.target.bound, PERIOD if kept is None else kept, self._unit,
            self._options.max_behind if kept is None else 0, self._options.max_ahead,
        )  # fmt: skip
        self._modelled = Thresholds(self.target, tuple(a for a in watched.aggregates if a.function not in EXACT))
        self._is_modelled = np.array([a.function not in EXACT for a in watched.aggregates], np.bool_)
        self._models = bool(self._is_modelled.any())
        self._allowed = np.full(len(watched.aggregates), self.target.bound)
        delta = 1.0 - self.target.confidence
        slide = watched.slide
        self._interval = self._options.adaptation_interval or INTERVAL
        self._alert = self._options.adaptation_interval or min(max(slide, ALERT), INTERVAL)
        time = max(watched.range, PERIOD)
        stated = self.target.at_most
        self._cap = default_cap(time, self._options.max_behind) if stated is None else stated
        period = max(time // slide, int(np.ceil(3 / delta)))
        block = max(BLOCK // slide, 4 * watched.range // slide, 16)
        memory = max(
            MEMORY // slide, 2 * period + 2 * block, 2 * self._cap // slide,
            int(max(STRAGGLER * watched.range / slide, FEWEST) / delta),
        )  # fmt: skip
        memory = min(memory, MOST_WINDOWS)
        self._judging = Judging(
            delta=delta,
            aim=AIM * delta,
            gain=GAIN / memory,
            period=period,
            alarm=int(SPENDING * delta * period),
            lately=2 * period,
            block=block,
            stride=max(1, period // 6),
            times=TIMES,
            slide=slide,
            overlap=watched.range // slide + 1,
            newest=max(NEWEST, 4 * max(self._alert, slide)),
            ahead=AHEAD,
            calming=max(5 * NEWEST, 8 * max(self._alert, slide)),
            settling=slide + SECOND,
            patience=PATIENCE * time,
        )
        self._rings = [no_required_slack(memory, FIRST_MARGIN)]
        self._scratch = np.zeros((2, self._losses.components))
        self._estimates = None
        if self.target.estimated and self.scaling is not None:
            self._estimates = Estimates(self._losses, self.target, self.scaling)
            self._rings = [no_required_slack(memory, FIRST_MARGIN) for _ in WAYS]
            self._losses.tally.factors = self._estimates.factors_between

    @property
    def _required(self) -> RequiredSlack:
        """What windows needed, in the way in which they are answered."""
        return self._rings[0 if self._estimates is None else self._estimates.way]

    @property
    def margin(self) -> float:
        """m, by which less than delta is aimed at."""
        return float(self._required.scalars[MARGIN])

    def needed(self, end: int) -> int | None:
        """The slack that the window with this end needed, as far as is known; None if nothing is known of it."""
        self._catch_up()
        window = self._losses.last_ended(end)
        ring = self._required.ring
        at = window % ring.shape[1]
        return edge_of(int(ring[INTO, at]), self._unit) if ring[NUMBER, at] == window else None

    def outlook(self) -> Outlook:
        """What the cap does for the target, by the windows that are remembered."""
        marks, scalars = self._required.marks, self._required.scalars
        known = bool(marks[KNOWN])
        return Outlook(
            cap=self._cap,
            stated=self.target.at_most is not None,
            choices=int(marks[CHOICES]),
            bound=int(marks[BOUND]),
            needed=int(marks[WANTED]) if known else None,
            reached=float(scalars[REACHED]) if known else None,
            unreachable=bool(scalars[SHORT] > 0.5 and scalars[REACHED] < 1.0 - self._judging.delta),
        )

    def trade_off(self) -> TradeOff | None:
        """By what the remembered windows needed to be within the bound, without the margin."""
        if not self._required.marks[KNOWN]:
            return None
        weights = self._required.bins[WEIGHTS].astype(np.float64)
        return trade_off_of(WINDOWS, lambda share: edge_of(least_bin(weights, 1 - share), self._unit))

    def learn(self, arrived: DelayObservations) -> None:
        self._catch_up()
        self._pending = arrived
        if self._models:
            self._modelled.absorb(arrived.words)

    def learn_sums(self, sums: Words) -> None:
        """As `learn`, of arrivals that came before the clock had passed them, as sums."""
        self._catch_up()
        self._losses.absorb_sums(sums, self._allowed)

    def _catch_up(self) -> None:
        """Note the arrivals that wait for the next choice."""
        if self._pending is not None:
            self._losses.absorb(self._pending, self.slack, self._allowed)
            self._pending = None

    def measured(self) -> MeasuredQuality:
        """The windows so far that were within the bound."""
        self._catch_up()
        return self._losses.measured(self.target.confidence, self._allowed)

    def adapt(self, measured: Measured) -> None:
        clock = max(measured.clocks)
        self.next_adaptation = clock + self._interval
        if clock == BEFORE_ALL:
            return
        if self._estimates is not None:
            self.slack = self._choice_for_estimates(clock, measured.slack)
        elif self._heard is None:
            self._look(clock)
            self.slack = self._choice(clock, measured.slack)
        else:
            self.slack = self._choice_of_shards(clock, measured.slack)
        if self._required.marks[SPENT] > self._judging.alarm:
            self.next_adaptation = clock + self._alert

    def _look(self, clock: int) -> None:
        """Count windows, and find out what may be missing from one, before slack is chosen."""
        losses = self._losses
        if clock >= self._count_due:
            self._catch_up()
            losses.count(self._allowed)
            losses.follow_delays()
            self._count_due = clock + losses.tally.interval
        if self._models and self._modelled.is_due(clock):
            self._catch_up()
            self._allow(clock)

    def join_shards(self, taught: bool) -> bool:
        self._heard = []
        return True

    def report(self, measured: Measured) -> Report:
        clock = max(measured.clocks)
        if clock < max(self.next_adaptation, BEFORE_ALL + 1):
            # All shards choose at the same clock; what comes before that is reported then.
            return {}
        return self._seen(clock)

    def _seen(self, clock: int) -> Report:
        """What is known here at a choice."""
        self._catch_up()
        self._look(clock)
        losses, required = self._losses, self._required
        filled = np.empty(required.ring.shape[1], np.int64)
        changed = np.empty((2, losses.ledger.marks[CHANGED]), np.int64)
        count = filled_windows(losses.watch, losses.ledger, required, losses.last_ended(clock), filled)
        if self._estimates is not None:
            seen = self._estimates.report(losses, clock, self._allowed, self._scratch)
            return {FILLED: filled[:count].copy(), **seen}
        changed_windows(losses.watch, losses.ledger, self._allowed, self._scratch, changed)
        return {FILLED: filled[:count].copy(), NEEDS: changed}

    def hear(self, reports: Sequence[Report]) -> None:
        self._heard = [one for one in reports if NEEDS in one]

    def _choice_of_shards(self, clock: int, slack: int) -> int:
        """A window is what its worst group is, in whichever shard; so it needs what it needs there."""
        heard, self._heard = self._heard or [], []
        watermark = self._losses.reach(clock, slack)
        return self._chosen(self._required, self._judging, heard, NEEDS, watermark, clock, slack)

    def _chosen(
        self, required: RequiredSlack, judging: Judging, heard: Sequence[Report], needs: str, watermark: int,
        clock: int, slack: int,
    ) -> int:  # fmt: skip
        filled = np.unique(np.concatenate([np.empty(0, np.int64), *(one[FILLED] for one in heard)]))
        changed = np.concatenate([np.empty((2, 0), np.int64), *(one[needs] for one in heard)], axis=1)
        if changed.shape[1]:
            # Of every window the largest need; windows in their order.
            changed = changed[:, np.lexsort(changed[::-1])]
            changed = changed[:, np.append(changed[0, 1:] != changed[0, :-1], True)]
        return slack_for_reported(
            self._losses.watch, required, judging, filled, np.ascontiguousarray(changed), watermark, clock,
            slack, self._cap,
        )  # fmt: skip

    def _choice_for_estimates(self, clock: int, slack: int) -> int:
        """The slack of the way of answering that asks for less. What windows need is known when they have settled."""
        estimates = self._estimates
        assert estimates is not None, "they are asked for"
        if self._heard is None:
            # Alone it is all the shards that there are.
            heard: Sequence[Report] = [self._seen(clock)]
        else:
            heard, self._heard = self._heard, []
        settled = estimates.settled_at(self._losses, clock)
        reached = self._losses.reach(clock, slack)
        wanted = []
        for way, needs in enumerate(WAYS):
            own = slack if way == estimates.way else estimates.slack_of(way)
            watermark = reached if way == estimates.way else clock - own
            judging = self._judging._replace(unsettled=estimates.unsettled if way == SCALED else 0)
            wanted.append(self._chosen(self._rings[way], judging, heard, needs, watermark, clock, own))
        if heard:
            estimates.hear(heard, settled)
        return estimates.choose(wanted, self._unit)

    def observe_batch(self, run: OrderedBatch, raw: OrderedBatch, answers: Sequence[Answers]) -> None:
        self._note_closed(run)
        super().observe_batch(run, raw, answers)

    def _note_closed(self, run: OrderedBatch) -> None:
        if self._estimates is not None:
            self._estimates.close(self._losses, run.watermark, self.slack)

    def _choice(self, clock: int, slack: int) -> int:
        losses, words, behind = self._losses, NO_WORDS, NO_WORDS[0]
        if self._pending is not None:
            words, behind = np.ascontiguousarray(self._pending.words), self._pending.behind
            self._pending = None
        done = 0
        while True:
            chosen = learn_and_choose(
                losses.watch, losses.ledger, self._required, self._judging, self._allowed, self._scratch, words,
                words.view(np.float64), behind, done, clock, slack, self._cap,
            )  # fmt: skip
            if chosen > NOT_YET:
                return chosen
            done = NOT_YET - chosen
            losses.reserve(int(words[TS, done]), self._allowed)

    def _allow(self, clock: int) -> None:
        """Work out anew what may be missing where the effect on the value is not known."""
        self._modelled.recalculate(clock, self._losses.tuples())
        self._allowed[self._is_modelled] = 1.0 - self._modelled.shares

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        self._catch_up()
        found: dict[str, npt.NDArray[Any]] = {"times": np.array([self.slack, self.next_adaptation, self._count_due])}
        for way, required in enumerate(self._rings):
            found |= {f"needs{way or ''}_{name}": array for name, array in required_as_arrays(required).items()}
        found |= {f"losses_{name}": array for name, array in self._losses.as_arrays().items()}
        found |= {f"modelled_{name}": array for name, array in self._modelled.as_arrays().items()}
        if self._estimates is not None:
            found |= {f"estimates_{name}": array for name, array in self._estimates.as_arrays().items()}
        return found | {"allowed": self._allowed.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        slack, self.next_adaptation, self._count_due = arrays["times"].tolist()
        self.slack = min(slack, self._cap)
        windows, lately = self._required.ring.shape[1], self._judging.lately
        self._rings = [
            required_slack_of(windows, lately, under(f"needs{way or ''}_", arrays)) for way in range(len(self._rings))
        ]
        self._losses.restore(under("losses_", arrays))
        self._modelled.restore(under("modelled_", arrays))
        self._allowed = np.array(arrays["allowed"])
        if self._estimates is not None:
            self._estimates.restore(under("estimates_", arrays))

    def describe(self) -> str:
        of = "estimates" if self.target.estimated else "windows"
        return (
            f"the least slack that would have kept the error of recent {of} within {self.target.bound:g}, but for"
            f" {1 - self.target.confidence:.4g} of them, by what late tuples really weighed (steady)"
        )


def under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin so, under the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

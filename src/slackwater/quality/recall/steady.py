"""The steady controller for joins: the least slack that keeps the promise, by the past and by what is going on.

Every interval the tuples that came are turned into a curve: the share of results that each slack would have lost of
them (`loss_curves`). Three rules make a slack of the curves.

1. *The promise, asked of the past* (`loss_history`): the least slack that would have kept c loss(k) <= 1 - target in
   97 % of the recent periods. How much losses scatter, and whether they come evenly or in bursts, is in the periods;
   nothing is assumed about it. A regime that is over no longer counts.
2. *What is left to the running period* (`running_period`): if what is going on lasted as long again, would the period
   still keep its target under that slack? If not, the slack that is enough for what is going on is taken at once.
3. *Never more than the cap*, which the user has stated (AT MOST) or which follows from the period. Where the cap is too
   little, the least slack that does nearly as well is taken, and the outlook says what would be needed.

Tuples beyond the cap cost the same under every slack; but what they cost is not what others do. A device whose clock is
hours behind joins with next to nothing, and what a phone uploads an hour late joins as anything else. The ledger knows
what they really cost, and with that they count: as their losses over what the curves say they cost.

c is what was really lost, by the ledger, over what the curves say of the slack that was in force. Only results count
that are old enough for their late tuples to have come, and a prior holds c near 1.

Slack is lowered only to where 92 % of what is allowed would be lost: where delays are either short or very long, the
least slack would jump between the two.

Invariant: nothing that is only estimated is fed back. The published loop makes up for estimated losses in the next
interval; a wrong estimate then swings it between no slack and the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.outlook import Outlook
from slackwater.core.quality import Recall, default_cap
from slackwater.core.time import BEFORE_ALL, DAY, format_duration
from slackwater.core.trade_off import RESULTS, TradeOff, trade_off_of
from slackwater.disorder.controllers import DelayObservations, KeepsLedger, Measured
from slackwater.disorder.meters import Ledger, Report, SharedLedger
from slackwater.quality.recall.loss_curves import count_needed, place_of, shape_of
from slackwater.quality.recall.loss_history import LossHistory
from slackwater.quality.recall.running_period import RunningPeriod

TOLERATED = 0.03
"""The share of past periods that a slack may have failed: less than may fail, because the next is not one of them."""
MEMORY = 10
"""The past fades over so many periods; twice as many are kept."""
BUCKETS = 20
"""A period has so many buckets, unless slack is chosen more rarely than that."""
DOUBT, MOST_DOUBT = 0.7, 2.0
"""A past of n periods is trusted by n / (n + doubt). The doubt is DOUBT periods where a twentieth may be lost, and more
where less may: the fewer late tuples a period may have, the more their number scatters."""
PRIOR = 0.3
"""How much the ledger must know before it counts, as a share of the losses that are allowed."""
LARGEST_CORRECTION = 8.0
"""The least is 1: where less is lost than the model says, the next burst may be one of those that it knows."""
SETTLED = 0.999
"""Results are settled once this share of delays has passed."""
ACCOUNTED = 3
"""Periods over which the ledger is compared with the model."""
SETTLE_EVERY = 5
"""Buckets from one look into the ledger to the next."""
FAR_PRIOR = 10.0
"""Tuples beyond the cap that are taken to have cost nothing, before the ledger knows better. Where the curves were
believed at first, a clock that is behind was remembered for ten periods as a burst of losses."""
DEAD_BAND = 0.92
"""Slack is lowered only to where this share of what is allowed is lost."""
NEARLY = 0.1
"""Where no slack does, one does nearly as well as the cap if it loses no more than this share of what is allowed on
top."""
NEEDED = "needed"
"""In a report, tuples by the slack that they needed."""
BINDING = 3
"""A target is unreachable where the cap was too little for most of so many periods; the latest count most."""


@dataclass(frozen=True)
class ControllerConfig:
    """How often a controller adapts, and how finely. Microseconds."""

    interval: int
    granularity: int
    basic_window: int


class SteadyRecall(KeepsLedger):
    """Slack for a recall target."""

    learns = True

    def __init__(
        self,
        target: Recall,
        windows: Sequence[int],
        config: ControllerConfig,
        retention: int,
        slack: int = 0,
        max_behind: int = DAY,
    ) -> None:
        self.target, self._config = target, config
        self.retention, self.interval, self.memory = retention, config.interval, ACCOUNTED * target.over
        self.cap = default_cap(target.over, max_behind) if target.at_most is None else target.at_most
        self.slack = min(slack, self.cap)
        self.next_adaptation = BEFORE_ALL
        self.ledger: Ledger | None = None
        self.correction = self.correction_of_precision = 1.0
        self.recall: float | None = None
        """Measured over the latest settled period; None before there is one."""
        self._shape = shape_of(windows or (0,), config.granularity)
        self._slacks = self._shape.slacks
        bins = len(self._slacks)
        self._counts: Words = np.zeros((max(1, len(windows)), bins), np.int64)
        """Tuples of the interval at hand, by the slack that they needed."""
        self._doubt = min(DOUBT * (0.05 / max(1 - target.target, 1e-9)) ** (1 / 3), MOST_DOUBT)
        self._bucket = max(config.interval, target.over // BUCKETS)
        span = -(-target.over // self._bucket)
        self._past = LossHistory(2 * MEMORY * span, span, MEMORY * span, bins)
        self._at_cap = place_of(self._slacks, self.cap)
        self._running = RunningPeriod(self._shape, -(-target.over // config.interval), MEMORY, self._at_cap)
        self._far = np.zeros(4)
        """Tuples; what the cap lost of them by the curves; results; those lost to tuples beyond the cap. What is older
        counts less."""
        self._booked = np.zeros(2)
        """The last two of these since the beginning, when they were looked up last."""
        self._ages = np.zeros((2, 2))
        """How much older members are than results, where no window says it: summed up, and how many; what is older
        counts less. Then the same since the beginning, when it was looked up last."""
        self._adapted_at = self._bucket_end = BEFORE_ALL
        self._buckets = 0
        self._watermark = BEFORE_ALL
        self._begins: list[int] = []
        self._expected: list[float] = []
        self._came: list[float] = []
        """Watermarks at the end of past intervals; what the slack in force loses there, in tuples; and the tuples."""
        self._by_past = 0
        """The place of the slack that the past asks for, whatever the cap."""
        self._enough = 0
        """The place of the slack that the past gets."""
        self._shared: SharedLedger | None = None
        """The ledger of all shards, where there are several."""
        self._unshared: Mapping[str, npt.NDArray[Any]] = {}
        """What that knew before a restart, until it is made."""
        self._own_counts: Words | None = None
        """Tuples of this epoch that came to this shard, where there are several and each sees its own."""
        self._primed = 0
        """The least slack while less than a period is known."""
        self._choices = self._bound = 0
        self._binding = 0.0
        """The share of the last choices at which the cap was too little."""

    @property
    def slack(self) -> int:
        """Never more than the cap, whoever sets it."""
        return self._slack

    @slack.setter
    def slack(self, slack: int) -> None:
        self._slack = min(slack, self.cap)

    def prime(self, slack: int) -> None:
        super().prime(slack)
        self._primed = self.slack

    def learn(self, arrived: DelayObservations) -> None:
        counts = self._counts if self._own_counts is None else self._own_counts
        count_needed(self._slacks, arrived.stream, arrived.needed, counts)

    def join_shards(self, taught: bool) -> bool:
        if self.ledger is None:
            return False
        self.ledger = self._shared = self.ledger.of_all_shards()
        if self._unshared:
            self._shared.restore(self._unshared)
        self._own_counts = None if taught else np.zeros_like(self._counts)
        return True

    def report(self, measured: Measured) -> Report:
        assert self._shared is not None
        found = dict(self._shared.report())
        if self._own_counts is not None:
            found[NEEDED] = _trimmed(self._own_counts).copy()
            self._own_counts[:] = 0
        return found

    def hear(self, reports: Sequence[Report]) -> None:
        assert self._shared is not None
        self._shared.hear(reports)
        for one in reports:
            if NEEDED in one:
                self._counts[:, : one[NEEDED].shape[1]] += one[NEEDED]

    def adapt(self, measured: Measured) -> None:
        largest, min_clock = max(measured.clocks), min(measured.clocks)
        passed = 1 if self._adapted_at == BEFORE_ALL else max(1, (largest - self._adapted_at) // self._config.interval)
        self._adapted_at, self.next_adaptation = largest, largest + self._config.interval
        if min_clock == BEFORE_ALL:
            return
        # Where slack has grown, the watermark stands still until the clocks have caught up with it.
        self._watermark = max(self._watermark, min_clock - measured.slack)
        allowed = self._allowed
        in_force = min_clock - self._watermark
        self._count_far(passed)
        self._count_ages(passed)
        lost, came, wanted = self._running.take_in(self._counts, self._past, in_force, self._enough, allowed, passed)
        self._begins.append(self._watermark)
        self._expected.append(lost)
        self._came.append(came)
        ended = largest >= self._bucket_end
        if ended or self._past.periods < 1:
            self._ask_the_past(allowed)
            wanted = self._running.least(self._enough, allowed)
        if ended:
            self._next_bucket(largest)
        self._choose(wanted, passed)

    @property
    def _allowed(self) -> float:
        """What the curves may say is lost: the least that recall and precision allow, each by what it really cost."""
        by_recall = (1 - self.target.target) / self.correction
        if self.target.precision is None:
            return by_recall
        return min(by_recall, (1 - self.target.precision) / self.correction_of_precision)

    def _count_far(self, passed: int) -> None:
        """Find out what tuples beyond the cap are worth: what those cost that came lately, whenever they are dated."""
        counted = None if self.ledger is None else self.ledger.lost_to_far()
        if counted is None:
            return
        self._far *= exp(-passed * self._config.interval / (MEMORY * self.target.over))
        # A ledger that was begun anew has less in it than before.
        since = self._booked if counted[0] >= self._booked[0] else counted
        self._far += (self._came[-1] if self._came else 0.0, self._running.far, *np.subtract(counted, since))
        self._booked[:] = counted
        tuples, by_curves, results, lost = self._far.tolist()
        worth = lost * tuples / max(results, 1.0) / (by_curves + FAR_PRIOR)
        self._running.worth = min(max(worth, 0.0), 1.0)

    def _count_ages(self, passed: int) -> None:
        """Where a member has no window, ages between nothing and twice the mean stand for one: so much of a member's
        delay costs nothing."""
        ages = None if self.ledger is None else self.ledger.ages()
        if ages is None:
            return
        faded, booked = self._ages
        faded *= exp(-passed * self._config.interval / (MEMORY * self.target.over))
        faded += np.subtract(ages, booked if ages[1] >= booked[1] else 0.0)
        booked[:] = ages
        self._use_ages()

    def _use_ages(self) -> None:
        (total, count), _ = self._ages
        if count > 0:
            self._shape.windows[-1] = max(1.0, 2 * total / count)

    def _ask_the_past(self, allowed: float) -> None:
        known = self._past.periods / (self._past.periods + self._doubt)
        self._by_past = self._past.least(allowed * known, TOLERATED, self._by_past, DEAD_BAND)
        within = self._by_past <= self._at_cap
        self._enough = self._by_past if within else self._past.least_like(self._at_cap, NEARLY * allowed)

    def _next_bucket(self, largest: int) -> None:
        passed = 1 if self._bucket_end == BEFORE_ALL else 1 + (largest - self._bucket_end) // self._bucket
        self._past.next_bucket(passed)
        self._bucket_end = largest + self._bucket
        self._buckets += 1
        if self._buckets % SETTLE_EVERY == 0:
            self._settle()

    def _choose(self, now: int, passed: int) -> None:
        """What the running period asks for, as long as the cap is enough for what the past asks for."""
        bound = self._by_past > self._at_cap
        self.slack = int(self._slacks[self._enough]) if bound else now
        if self._past.periods < 1:
            self.slack = max(self.slack, self._primed)
        bound |= now > self.cap
        self._choices += 1
        self._bound += bound
        kept = exp(-passed * self._config.interval / (BINDING * self.target.over))
        self._binding = kept * self._binding + (1 - kept) * bound

    def _settle(self) -> None:
        """Compare what the model says about the slack of the past with the ledger, as far back as it is settled."""
        settled = self._watermark - self._settling()
        begins = np.array(self._begins, np.int64)
        first = max(0, int(np.searchsorted(begins, settled - self.memory)) - 1)
        self._begins, self._expected, self._came = self._begins[first:], self._expected[first:], self._came[first:]
        begins = begins[first:]
        past = int(np.searchsorted(begins, settled))
        if self.ledger is None or past == 0:
            return
        edges = np.append(begins[:past], settled)
        made, lost = self.ledger.between(edges)
        results, came = made + lost, sum(self._came[:past])
        if results.sum() > 0 and came > 0:
            # Shares of all that came: what was stuck comes all at once, and an interval is not like another then.
            expected = sum(self._expected[:past]) / came
            self.correction = _corrected(lost.sum() / results.sum(), expected, 1 - self.target.target)
            if self.target.precision is not None:
                false = float(self.ledger.false_between(edges).sum())
                share = false / (false + made.sum()) if false else 0.0
                self.correction_of_precision = _corrected(share, expected, 1 - self.target.precision)
        if settled - edges[0] >= self.target.over:
            latest = int(np.searchsorted(edges, settled - self.target.over))
            true = float(results[latest:].sum())
            self.recall = float(made[latest:].sum()) / true if true else self.recall

    def _settling(self) -> int:
        """How long after the watermark has passed most late tuples have come."""
        late = max(0, self._running.quantile(SETTLED) - self.slack)
        return min(late, self.retention) + self._config.interval

    def outlook(self) -> Outlook:
        known = self._choices > 0 and self._past.periods >= 1
        reached = min(max(1 - self.correction * self._past.mean(self._at_cap), 0.0), 1.0) if known else None
        return Outlook(
            self.cap,
            self.target.at_most is not None,
            self._choices,
            self._bound,
            int(self._slacks[self._by_past]) if known else None,
            reached,
            # A past that is short, or periods that scatter, may ask for more than the cap where it does on the whole.
            self._binding > 0.5 and reached is not None and reached < self.target.target,
        )

    def trade_off(self) -> TradeOff | None:
        """By the promise asked of the past alone; what is going on now may ask for more for a while."""
        if self._choices == 0 or self._past.periods < 1:
            return None
        known = self._past.periods / (self._past.periods + self._doubt) / self.correction

        def slack_for(share: float) -> int:
            return int(self._slacks[self._past.least((1 - share) * known, TOLERATED)])

        return trade_off_of(RESULTS, slack_for)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        recall = -1.0 if self.recall is None else self.recall
        own: dict[str, npt.NDArray[Any]] = {
            "scalars": np.array([self.correction, recall, self._binding, self.correction_of_precision]),
            "words": np.array([getattr(self, name) for name in _WORDS]),
            "begins": np.array(self._begins, np.int64),
            "expected": np.array([self._expected, self._came]),
            "far": np.concatenate([self._far, self._booked]),
            "ages": self._ages,
            "counts": _trimmed(self._counts),
        }
        if self._shared is not None:
            own |= {f"shared_{name}": array for name, array in self._shared.as_arrays().items()}
        own |= {f"running_{name}": array for name, array in self._running.as_arrays().items()}
        return own | {f"past_{name}": array for name, array in self._past.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.correction, recall, self._binding, self.correction_of_precision = arrays["scalars"].tolist()
        self.recall = None if recall < 0 else recall
        for name, value in zip(_WORDS, arrays["words"].tolist(), strict=True):
            setattr(self, name, value)
        self._begins, (self._expected, self._came) = arrays["begins"].tolist(), arrays["expected"].tolist()
        self._far[:], self._booked[:] = np.split(arrays["far"], [4])
        self._ages[:] = arrays["ages"]
        self._use_ages()
        self._counts[:] = 0
        self._counts[:, : arrays["counts"].shape[1]] = arrays["counts"]
        of_shards = _partition(arrays, "shared_")
        if self._shared is None:
            self._unshared = of_shards
        elif of_shards:
            self._shared.restore(of_shards)
        self._running.restore(_partition(arrays, "running_"))
        self._past.restore(_partition(arrays, "past_"))

    @property
    def _precise(self) -> str:
        return "" if self.target.precision is None else f" and precision at {self.target.precision:g}"

    def describe(self) -> str:
        return (
            f"the least slack that keeps recall at {self.target.target:g}{self._precise} over"
            f" {format_duration(self.target.over)},"
            " by the delays seen and by what late tuples really cost (steady)"
        )


_WORDS = (
    "slack",
    "next_adaptation",
    "_adapted_at",
    "_bucket_end",
    "_buckets",
    "_watermark",
    "_by_past",
    "_enough",
    "_choices",
    "_bound",
    "_primed",
)
"""Attributes that are whole numbers, as they are persisted."""


def _corrected(share: float, expected: float, allowed: float) -> float:
    """How many times what the curves say was really lost, or false."""
    prior = PRIOR * allowed
    return min(max(float((share + prior) / (expected + prior)), 1.0), LARGEST_CORRECTION)


def _trimmed(counts: Words) -> Words:
    """Without the bins at the end that nothing is in."""
    return counts[:, : 1 + int(np.flatnonzero(counts.any(axis=0)).max(initial=0))]


def _partition(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

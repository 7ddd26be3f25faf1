"""What a query with a target knows of its own quality, as counts that can be added up.

Invariant: `good` and `bad` are exact for everything whose losses are known. What came too late for that is counted in
`unknown_late`; it has probably cost `estimated` beyond `bad`, and `unsure` at most. So `share` is the best estimate,
and the truth lies between `low` and `high` whatever it may be. From `provisional_from` on, late tuples that the counts
do not have yet may still come. All of this is about the first answer; what followed it is in `corrected`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from slackwater.core.time import MILLISECOND
from slackwater.core.values import Value, first, over_shards

RESULTS: Literal["results"] = "results"
WINDOWS: Literal["windows"] = "windows"


@dataclass(frozen=True)
class MeasuredQuality(Value):
    """Results of a join, or windows of an aggregate, against what was asked for.

    >>> seen = MeasuredQuality("results", 0.95, good=90.0, bad=5.0, unknown_late=1, unsure=10.0, estimated=5.0)
    >>> seen.share, round(seen.low, 3), round(seen.high, 3), seen.fulfilment
    (0.9, 0.857, 0.947, None)
    """

    of: Literal["results", "windows"]
    target: float = field(metadata=over_shards(first))
    """The share of results that must be there, or of windows that must be within the bound."""
    good: float = 0.0
    """Results made, or windows within the bound."""
    bad: float = 0.0
    """Results lost, or windows further off."""
    unknown_late: int = 0
    """Late tuples whose losses are not known, or not in full, because they are beyond the retention horizon: their
    losses are estimated."""
    unsure: float = 0.0
    """The most that these can have cost beyond `bad`."""
    periods: int = field(default=0, metadata=over_shards(first))
    """How many periods were measured; of several shards, in what all of them have made and lost."""
    met: int = field(default=0, metadata=over_shards(first))
    """How many of them met the target."""
    latest_good: float = field(default=0.0, metadata=over_shards(first))
    latest_bad: float = field(default=0.0, metadata=over_shards(first))
    """As `good` and `bad`, of the latest period that is settled."""
    exact: bool = field(default=True, metadata=over_shards(first))
    """False: windows are judged by how much of them is missing, because what that does to the value is not known."""
    provisional_from: int | None = field(default=None, metadata=over_shards(min))
    """Event time from which on late tuples may still be expected; None once nothing can come any more."""
    estimated: float = 0.0
    """What the tuples beyond the retention horizon have probably cost beyond `bad`."""
    surely_met: int = field(default=0, metadata=over_shards(first))
    most_periods: int = field(default=0, metadata=over_shards(first))
    """Periods that met the target even if these have cost all they can, of all that have results then."""
    perhaps_met: int = field(default=0, metadata=over_shards(first))
    fewest_periods: int = field(default=0, metadata=over_shards(first))
    """Periods that met it if these have cost nothing, of those that have results then."""
    retention: int | None = None
    """How far back late tuples are counted exactly now; None where nothing has been forgotten."""
    retained_by: str = ""
    """Why it is not longer: 'stated'; 'delays', nearly no late tuple has needed more; 'memory'; 'all': it is all."""
    doubtful: float = 0.0
    """Windows among `bad` that may be within the bound, as far as is known."""
    expected: float | None = None
    """How many more corrections late tuples will probably bring; None where that is not known."""
    corrected: float | None = None
    """Lost results that have been emitted since, as corrections; None where nothing is corrected."""

    false: float | None = None
    """Rows that have left and turned out not to be true; None where no row can."""

    def __add__(self, other: Self) -> Self:
        """
        >>> one = MeasuredQuality("results", 0.9, good=8.0, bad=2.0, provisional_from=7)
        >>> both = one + MeasuredQuality("results", 0.9, good=10.0, provisional_from=5, retention=9)
        >>> both.good, both.bad, both.target, both.provisional_from, both.retention
        (18.0, 2.0, 0.9, 5, 9)
        """
        shortest = min(self, other, key=lambda one: math.inf if one.retention is None else one.retention)
        return replace(super().__add__(other), retention=shortest.retention, retained_by=shortest.retained_by)

    @property
    def share(self) -> float | None:
        """The measured recall, or the measured share of windows within the bound; None before there is any."""
        return _share(self.good, self.good + self.bad + self.estimated)

    @property
    def share_corrected(self) -> float | None:
        """The measured share once corrections are applied; None where there are none, and before there is any.

        >>> MeasuredQuality("results", 0.9, good=90.0, bad=8.0, estimated=2.0, corrected=8.0).share_corrected
        0.98
        """
        if self.corrected is None:
            return None
        # What was emitted was lost before, whatever was known of it.
        lost = max(self.bad + self.estimated, self.corrected)
        return _share(self.good + self.corrected, self.good + lost)

    @property
    def low(self) -> float | None:
        """What the share is at least, however much the tuples beyond the retention horizon have cost."""
        if self.of == RESULTS:
            return _share(self.good, self.good + self.bad + self.unsure)
        return _share(max(0.0, self.good - self.unsure), self.good + self.bad)

    @property
    def high(self) -> float | None:
        """What the share is at most: a lost result stays lost, but errors can cancel each other out."""
        if self.of == RESULTS:
            return 0.0 if self.unsure and not self.good else _share(self.good, self.good + self.bad)
        all_windows = self.good + self.bad
        return _share(min(self.good + self.unsure + self.doubtful, all_windows), all_windows)

    @property
    def precision(self) -> float | None:
        """The measured share of rows that are true; None where all are, and before there is any.

        >>> MeasuredQuality("results", 0.9, good=98.0, false=2.0).precision
        0.98
        """
        return None if self.false is None else _share(self.good, self.good + self.false)

    @property
    def least_precision(self) -> float | None:
        """What it is at least: each result that tuples beyond the retention horizon cost may have made a row false."""
        return None if self.false is None else _share(max(0.0, self.good - self.unsure), self.good + self.false)

    @property
    def latest(self) -> float | None:
        """The share over the latest settled period."""
        return _share(self.latest_good, self.latest_good + self.latest_bad)

    @property
    def fulfilment(self) -> float | None:
        """The share of measured periods that met the target."""
        return _share(self.met, self.periods)

    @property
    def least_fulfilment(self) -> float | None:
        """What `fulfilment` is at least, however much the tuples beyond the retention horizon have cost."""
        return _share(self.surely_met, self.most_periods)

    @property
    def most_fulfilment(self) -> float | None:
        """What `fulfilment` is at most."""
        # Where only lost results are in doubt, no period can have met.
        return 0.0 if self.most_periods and not self.fewest_periods else _share(self.perhaps_met, self.fewest_periods)

    def as_shares(self) -> dict[str, Any]:
        """As reported to users; `provisional_from` stays in microseconds."""
        reported: dict[str, Any] = {
            "of": self.of,
            "target": self.target,
            "measured": self.share,
            "low": self.low,
            "high": self.high,
            "good": self.good,
            "bad": self.bad,
            "unknown_late": self.unknown_late,
        }
        if self.of == RESULTS:
            reported |= {"estimated": self.estimated, "latest": self.latest, "phi": self.fulfilment}
            reported |= {"phi_low": self.least_fulfilment, "phi_high": self.most_fulfilment, "periods": self.periods}
            reported |= {"retention_ms": None if self.retention is None else self.retention / MILLISECOND}
            reported |= {"retained_by": self.retained_by}
        else:
            reported |= {"by": "value" if self.exact else "coverage"}
        if self.false is not None:
            reported |= {"false": self.false, "precision": self.precision}
            reported |= {"precision_low": self.least_precision, "precision_high": self.precision}
        if self.corrected is not None:
            reported |= {"corrected": self.corrected, "after_corrections": self.share_corrected}
            reported |= {"corrections_expected": self.expected}
        return reported | {"provisional_from": self.provisional_from}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None

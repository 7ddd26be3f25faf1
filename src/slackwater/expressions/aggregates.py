"""The aggregates: one entry each, with what everybody but those who compute it must know of it.

The language finds an aggregate here by its name and gives its results their kind; plans, advice and targets ask what
may be done with it. How it is computed stands in `operators/aggregate`, and once more, for the judge, in `verify`.

Invariant: whoever asks which aggregates there are asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from slackwater.core.schema import Kind


class Takes(Enum):
    """Which arguments an aggregate can have."""

    ANYTHING = auto()
    ORDERED = auto()
    """A number, a timestamp or a text."""
    NUMBERS = auto()


class Gives(Enum):
    """The kind of an aggregate's results."""

    COUNT = auto()
    ARGUMENT = auto()
    """One of its values: the type of its argument."""
    TOTAL = auto()
    """The kind of its argument."""
    AVERAGE = auto()
    """A decimal of decimals, else a float."""
    FLOAT = auto()


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate."""

    takes: Takes
    gives: Gives
    called: tuple[str, ...] = ()
    """Its names in a query, in lower case; none where it has a form of its own."""
    keeps_values: bool = False
    """Whether all values of a window are kept, not a few words."""
    by_time: bool = False
    """Whether event times choose among its values. A row of a relation has none."""
    by_second: bool = False
    """Whether a second argument, a number or a timestamp, chooses among its values."""
    of_different: str | None = None
    """The aggregate that it is of the different values alone, where that is not their number. What a tuple that is
    missing does to it depends on which values are there."""
    sketched: bool = False
    """Whether it is an estimate, from a sketch of all values."""

    @property
    def chooses(self) -> bool:
        """Whether something else chooses among its values. What a tuple that is missing does to that has no bound."""
        return self.by_time or self.by_second

    def kind_of(self, argument: Kind) -> Kind:
        """The kind of its results over arguments of a kind that it takes.

        >>> FUNCTIONS["AVG"].kind_of(Kind.INT), FUNCTIONS["MAX"].kind_of(Kind.TEXT)
        (<Kind.FLOAT: 'float'>, <Kind.TEXT: 'text'>)
        """
        if self.gives is Gives.COUNT:
            return Kind.INT
        kept = self.gives in (Gives.ARGUMENT, Gives.TOTAL) or (self.gives is Gives.AVERAGE and argument is Kind.DECIMAL)
        return argument if kept else Kind.FLOAT


QUANTILES = ("quantile", "percentile", "approx_percentile", "percentile_approx")
"""What a quantile is called; it is exact under any of these names."""
FUNCTIONS: Mapping[str, AggregateFunction] = {
    "COUNT": AggregateFunction(Takes.ANYTHING, Gives.COUNT, ("count", "count_if")),
    "COUNT_DISTINCT": AggregateFunction(Takes.ANYTHING, Gives.COUNT, keeps_values=True),
    "APPROX_COUNT_DISTINCT": AggregateFunction(Takes.ANYTHING, Gives.COUNT, ("approx_count_distinct",), sketched=True),
    "SUM": AggregateFunction(Takes.NUMBERS, Gives.TOTAL, ("sum",)),
    "AVG": AggregateFunction(Takes.NUMBERS, Gives.AVERAGE, ("avg", "mean")),
    "SUM_DISTINCT": AggregateFunction(Takes.NUMBERS, Gives.TOTAL, keeps_values=True, of_different="SUM"),
    "AVG_DISTINCT": AggregateFunction(Takes.NUMBERS, Gives.AVERAGE, keeps_values=True, of_different="AVG"),
    "MIN": AggregateFunction(Takes.ORDERED, Gives.ARGUMENT, ("min",)),
    "MAX": AggregateFunction(Takes.ORDERED, Gives.ARGUMENT, ("max",)),
    "FIRST": AggregateFunction(Takes.ANYTHING, Gives.ARGUMENT, ("first", "any_value"), by_time=True),
    "LAST": AggregateFunction(Takes.ANYTHING, Gives.ARGUMENT, ("last",), by_time=True),
    "MAX_BY": AggregateFunction(Takes.ANYTHING, Gives.ARGUMENT, ("max_by", "arg_max"), by_second=True),
    "MIN_BY": AggregateFunction(Takes.ANYTHING, Gives.ARGUMENT, ("min_by", "arg_min"), by_second=True),
    "VAR": AggregateFunction(Takes.NUMBERS, Gives.FLOAT, ("var", "variance", "var_samp")),
    "STDDEV": AggregateFunction(Takes.NUMBERS, Gives.FLOAT, ("stddev", "stddev_samp")),
    "MEDIAN": AggregateFunction(Takes.NUMBERS, Gives.FLOAT, ("median",), keeps_values=True),
    "QUANTILE": AggregateFunction(Takes.NUMBERS, Gives.FLOAT, QUANTILES, keeps_values=True),
}
"""By name, as plans have it."""
DIFFERENT: Mapping[str, str] = {
    "COUNT": "COUNT_DISTINCT", "SUM": "SUM_DISTINCT", "AVG": "AVG_DISTINCT", "MIN": "MIN", "MAX": "MAX",
}  # fmt: skip
"""What an aggregate is of DISTINCT values."""
BY_CALL: Mapping[str, str] = {called: name for name, one in FUNCTIONS.items() for called in one.called}
"""Every name an aggregate can be called by, and the aggregate."""

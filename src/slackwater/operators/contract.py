"""What a pipeline asks of the operator behind it, and of the spec that the operator was built from.

Every operator processes ordered batches, yields outputs, and persists its state. What only some can do has a hook,
whose default is "no". Nothing tests the type of an operator.

Invariant: the hooks that a controller may call are those of `disorder.meters.Measurable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slackwater.core.batch import Words
from slackwater.core.engines import EnginesSeen
from slackwater.core.rates import RatesSeen, Resize
from slackwater.core.state import StateUpdate
from slackwater.disorder.meters import AnswerLog, Ledger, LedgerTerms, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate.shared.store import PaneReader
from slackwater.operators.output import Output
from slackwater.operators.stages import DirectStage, Stages
from slackwater.operators.state_size import WindowContents


class ResizeLog(Protocol):
    """A join whose windows follow rates."""

    def take_resizes(self) -> list[Resize]:
        """The resizes since the last call, oldest first."""

    def seen(self) -> RatesSeen:
        """The windows in force, and how often that has changed."""


class Operator(ABC):
    """The operator behind a release, or in a node of a graph."""

    spec: Any
    """The frozen spec that it was built from."""

    @abstractmethod
    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Process a run, in order or not; yield the outputs."""

    @property
    @abstractmethod
    def state_rows(self) -> int:
        """Tuples in windows, or partial aggregates."""

    @abstractmethod
    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """What the windows hold when the watermark is there."""

    @abstractmethod
    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""

    @abstractmethod
    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""

    def combine_panes(self, partials: Words) -> None:
        """Take in partial results of tuples that are not at hand; only aggregates can."""
        raise NotImplementedError

    @property
    def external_sync(self) -> bool:
        """Whether it synchronizes its streams itself, so that the release in front applies slack alone."""
        return False

    def attach(self, release: Release) -> Stages:
        """Attach to this release; returns the stages that a pipeline drives from then on."""
        return DirectStage(release)

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        """What every node reads; a single operator reads all streams."""
        return [tuple(range(self.spec.streams))]

    @property
    def several_nodes(self) -> bool:
        """Whether windows and results are spread over several operators."""
        return False

    def ledger_for(self, terms: LedgerTerms) -> Ledger | None:
        """A ledger of results made and lost, if it can keep one."""
        return None

    @property
    def watched(self) -> Watched | None:
        """The windows of raw tuples whose answers have an error, if there are any."""
        return None

    def answers_for(self, bound: float) -> AnswerLog | None:
        """A log of the answers that sums do not tell of, if there are any."""
        return None

    def resize_logs(self) -> list[tuple[int, ResizeLog]]:
        """The joins whose windows follow rates, each with the number of its node."""
        return []

    @property
    def engines(self) -> EnginesSeen | None:
        """Which engines compute its parts, if there is more than one."""
        return None


@dataclass(frozen=True)
class BuildContext:
    """What a spec is given to build its operator: the codes of a query's texts, in both directions."""

    encode_text: Callable[[str], int] = lambda text: 0
    texts: TextTable | None = None
    """For MIN and MAX of text, which compare texts."""
    panes: PaneReader | None = None
    """The panes that an aggregate reads, where it has none of its own."""


PLAIN = BuildContext()
"""For specs that read no text."""


class PlannedSpec(ABC):
    """The frozen spec of an operator, with everything that a plan asks of it, so that no part of the plan tests its
    type. By default it reads one stream, in order."""

    rows: int
    """Word rows of a tuple."""

    @property
    def streams(self) -> int:
        return 1

    @property
    def needs_order(self) -> bool:
        return True

    @property
    def windowed(self) -> bool:
        """Whether results have the bounds of a window, and no time of their own."""
        return False

    @property
    def identity(self) -> object:
        """What its results depend on; the same may be computed in several ways."""
        return self

    @property
    def kept(self) -> object:
        """What the shape and meaning of its state depend on."""
        return self.identity

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        """Per input, the rows in which tuples that can meet are equal; None where any two can meet."""
        return None

    @abstractmethod
    def described(self, aliases: Sequence[str], name: Callable[[int, int], str]) -> tuple[str, dict[str, Any]]:
        """What EXPLAIN says about it, as text and as attributes, given its inputs and the name of every row of one."""

    @abstractmethod
    def build(self, context: BuildContext = PLAIN) -> Operator:
        """Build the operator, which holds the mutable state."""


class OperatorSpec(Protocol):
    """The frozen spec of an operator."""

    @property
    def streams(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def needs_order(self) -> bool: ...
    def build(self, context: BuildContext = PLAIN) -> Operator:
        """Build the operator, which holds the mutable state."""

"""What a pipeline asks of the operator behind it, and of the spec that the operator was built from.

Every operator processes ordered batches, yields outputs, and persists its state. What only some can do has a hook,
whose default is "no". Nothing tests the type of an operator.

Invariant: the hooks that a controller may call are those of `disorder.meters.Measurable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.core.batch import Words
from slackwater.core.engines import EnginesSeen
from slackwater.core.quality import Quality
from slackwater.core.rates import RatesSeen, Resize
from slackwater.core.state import StateUpdate
from slackwater.disorder.meters import AnswerLog, Ledger, LedgerTerms, Scaling, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate.shared.store import PaneReader
from slackwater.operators.description import Described, Shown
from slackwater.operators.join.bands import Band
from slackwater.operators.output import Output
from slackwater.operators.projection import Projection
from slackwater.operators.stages import DirectStage, Stages
from slackwater.operators.state_size import NodeSpec, OfInput, Weights, WindowContents

if TYPE_CHECKING:
    from slackwater.operators.aggregate.operator import WindowAggregate
    from slackwater.operators.instant.spec import InstantRelation
    from slackwater.operators.join.operator import WindowJoin


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
    def state_rows(self) -> int:
        """Tuples in windows, or partial aggregates; an operator that says nothing of its state has none."""
        return 0

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """What the windows hold when the watermark is there."""
        return iter(())

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        return []

    def restore(self, entries: list[StateUpdate]) -> None:  # noqa: B027 - not all have state
        """Take over persisted state."""

    def combine_panes(self, partials: Words) -> None:
        """Take in partial results of tuples that are not at hand; only aggregates can."""
        raise NotImplementedError

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

    @property
    def corrects_losses(self) -> bool:
        """Whether each row that amends an answer is a result that its ledger counts as lost."""
        return False

    def ledger_for(self, terms: LedgerTerms) -> Ledger | None:
        """A ledger of results made and lost, if it can keep one."""
        return None

    @property
    def watched(self) -> Watched | None:
        """The windows of raw tuples whose answers have an error, if there are any."""
        watched: Watched | None = self.spec.watched
        return watched

    def answers_for(self, bound: float) -> AnswerLog | None:
        """A log of the answers that sums do not tell of, if there are any."""
        return None

    @property
    def scaling(self) -> Scaling | None:
        """How its answers are scaled, if estimates stand beside them."""
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


@dataclass(frozen=True)
class GraphNode:
    """One operator of a graph. `inputs` are raw streams, or nodes below (`operators.inputs`)."""

    operator: OperatorSpec
    inputs: tuple[int, ...]
    outlet: Projection | None = None
    """How its results become tuples of the node that reads them; None for the last node."""


class WithoutKey(Enum):
    """How tuples that no key tells apart may still be spread over shards."""

    NOT = auto()
    """Not at all: any two may have to meet."""
    FREELY = auto()
    """In any way: no two have to meet."""
    BY_COMBINATION = auto()
    """In any way that brings the members of every combination together in one shard."""
    AS_PARTIALS = auto()
    """In any way: partial results of the shards are combined in one."""


class NullKeys(Enum):
    """What becomes of tuples whose key is null."""

    MEET = auto()
    """They meet each other, as in a group."""
    PASS = auto()
    """They meet none, and leave."""
    DROP = auto()
    """They meet none, and do not leave."""


KeyClass = tuple[dict[int, int], list[int]]
"""What is equal in all tuples that meet at an operator: per input its row, and the result columns that hold it."""


class OperatorSpec(ABC):
    """The frozen spec of an operator, with everything that a plan and a runtime ask of it, so that nothing tests its
    type. By default it reads one stream, in order, and has no window."""

    if TYPE_CHECKING:  # A field of most specs, which a property here would be taken for the default of.

        @property
        def rows(self) -> int:
            """Word rows of a tuple."""

    @property
    def streams(self) -> int:
        return 1

    @property
    def all_nodes(self) -> tuple[GraphNode, ...]:
        """The operators that it consists of, each behind those it reads: one by itself is a graph of one node."""
        return (GraphNode(self, tuple(range(self.streams))),)

    @property
    def needs_order(self) -> bool:
        return True

    @property
    def at_once(self) -> bool:
        """Whether it takes tuples as they arrive, marked with the watermark they met, however time is cut."""
        return False

    @property
    def external_sync(self) -> bool:
        """Whether its operator synchronizes its streams itself, so that the release in front applies slack alone."""
        return False

    @property
    def windowed(self) -> bool:
        """Whether results have the bounds of a window, and no time of their own."""
        return False

    @property
    def windows_joined(self) -> tuple[int, ...]:
        """The windows of a join, one for each stream."""
        return ()

    @property
    def holds(self) -> bool:
        """Whether results are held until they leave, and are not emitted as they are made."""
        return False

    @property
    def count_only(self) -> bool:
        """Whether results are only counted."""
        return False

    @property
    def watched(self) -> Watched | None:
        """What a slack controller must know to judge answers, if it has answers that can be wrong."""
        return None

    @property
    def pane_partials(self) -> WindowAggregate | None:
        """The aggregate whose partial results its tuples may travel as, if they may."""
        return None

    @property
    def as_join(self) -> WindowJoin | None:
        """Itself, where one operator joins all its streams."""
        return None

    @property
    def as_panes(self) -> WindowAggregate | None:
        """Itself, where it aggregates panes of time."""
        return None

    @property
    def as_relations(self) -> InstantRelation | None:
        """Itself, where it is a tree of relational operators that engines are chosen for."""
        return None

    @property
    def resize_at_first(self) -> Resize | None:
        """The windows that are in force before anything is known, where windows follow rates."""
        return None

    @property
    def identity(self) -> object:
        """What its results depend on; the same may be computed in several ways."""
        return self

    @property
    def state_identity(self) -> object:
        """What the shape and meaning of its state depend on; itself, where that is everything about it."""
        return self

    def learning_key(self, quality: Quality) -> str:
        """What of it two queries must share, for one to go on with what the controller of the other has learned."""
        return ""

    @property
    def one_shard(self) -> str | None:
        """Why it must see the tuples of all keys, and so runs in one shard; None where a key may spread it."""
        return None

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        """Per input, the rows in which tuples that can meet are equal; None where any two can meet."""
        return None

    @property
    def key_classes(self) -> list[KeyClass]:
        """The keys that all tuples that meet have in common, one by one; a graph follows them from node to node."""
        return []

    @property
    def null_keys(self) -> NullKeys:
        """What becomes of tuples whose key is null."""
        return NullKeys.MEET

    @property
    def absent_columns(self) -> frozenset[int]:
        """Result columns that are null also where the key they hold is not."""
        return frozenset()

    @property
    def without_key(self) -> WithoutKey:
        """How it may be spread where it has no key."""
        return WithoutKey.NOT

    def bands_for_tiles(self, times: bool) -> list[Band]:
        """What conditions say about how near to each other two columns are; of times only where that is asked for."""
        return []

    def arriving(self) -> OperatorSpec | None:
        """The same, whose results leave as their last tuple arrives; None where that is not offered."""
        return None

    def corrected(self, reach: int) -> OperatorSpec | None:
        """The same, whose results follow what late tuples would have changed, as far as these lie at most so far behind
        the watermark; None where that is not offered."""
        return None

    @property
    def looks_back(self) -> int:
        """How much older than a result a tuple may be that it is made of."""
        return 0

    def with_times(self) -> OperatorSpec:
        """The same with what `held_until` asks for behind its columns. Only results that a query may hold have that."""
        raise NotImplementedError

    def held_until(self, made: Output) -> Words:
        """The last instant that each result of `with_times` is in force."""
        raise NotImplementedError

    def without_times(self, made: Output) -> tuple[Words, ...]:
        """The columns of results of `with_times` as its own operator has them."""
        return tuple(made.columns)

    @abstractmethod
    def describe(self, shown: Shown) -> Described:
        """What EXPLAIN says about it."""

    def describe_node(self, shown: Shown, number: int) -> tuple[Described, tuple[str, ...]]:
        """What EXPLAIN says about one of its nodes, and what it calls the inputs of that node."""
        return self.describe(shown), shown.aliases

    def weights(self, inputs: Sequence[Sequence[OfInput]]) -> Weights:
        """What its windows are called, and what their tuples are made of, given the inputs of every node. Where a plan
        knows its nodes by the whole alone, those are the inputs of the whole."""
        (own,) = inputs
        return (NodeSpec(" ⨝ ".join(one.label for one in own), tuple(own)),)

    @abstractmethod
    def build(self, context: BuildContext = PLAIN) -> Operator:
        """Build the operator, which holds the mutable state."""

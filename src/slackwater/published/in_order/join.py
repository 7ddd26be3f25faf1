"""A join that takes tuples in their turn or before it, and the node around it.

While tuples come in their turn it is the window join, with its windows and its loop. Before the first one enters early
the windows are indexed for a search in which any member may be the newest; once no tuple is ahead of its turn and no
result is held it can be the window join again.

Invariant: the results are those of the window join on the turns alone, in the same order. Raw tuples are in time or
late, and nodes above get the same watermarks, as with a `Node`.

References: 000 §5, §6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.disorder.release.eager import EagerSynchronizer, Events
from slackwater.disorder.release.release import ReleaseSpec
from slackwater.disorder.release.synchronizer import Inflow, Synchronized
from slackwater.operators.join.arrival import ArrivalProbe
from slackwater.operators.join.eager_probe import AHEAD, Lines, join_events
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import Windows, WindowStore
from slackwater.operators.join.unordered_probe import Reach
from slackwater.operators.node import Node
from slackwater.operators.output import Output
from slackwater.operators.state_size import RESULTS, WindowContents
from slackwater.published.in_order.hold import HoldBuffer, Made


class OrderedJoin(JoinOperator):
    """The mutable half of a `WindowJoin` whose tuples may enter before their turn."""

    def __init__(self, spec: WindowJoin, encode_text: Callable[[str], int] = lambda text: 0) -> None:
        super().__init__(spec, encode_text)
        self._probe = ArrivalProbe(spec, self._condition, spec.count_only, spec.rows)
        self._any_store = self._probe.store
        self._columns = 0 if spec.count_only else len(spec.emit)
        self.hold = HoldBuffer(self._columns)
        self.in_order = True
        """Whether the windows are those of the window join."""
        self._ahead = 0
        self.compared: Words = np.zeros(0, np.int64)
        """Of every event processed last out of order, how many tuples it was compared with."""

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run or events; yield the results whose turn has come."""
        early = isinstance(run, Events) and run.kind is not None
        if self.in_order and not early:
            yield from super().process(run, ordered)
        else:
            yield from self._process_events(run if isinstance(run, Events) else Events.of(run))

    def go_out_of_order(self) -> None:
        """From now on tuples are joined by a search in which any member may be the newest."""
        if self.in_order:
            self.in_order = False
            self._move(self._store, self._any_store)

    def go_in_order(self) -> None:
        """No tuple is ahead of its turn, and no result is held: be the window join again."""
        if not self.in_order:
            assert self._ahead == 0, "a tuple that was joined has its turn still to come"
            assert self.hold.held == 0, "a result has its turn still to come"
            self.in_order = True
            self._move(self._any_store, self._store)

    def _move(self, source: WindowStore, target: WindowStore) -> None:
        for stream, words in enumerate(source.take_all()):
            target.put_back(stream, words, self._horizons())

    def _process_events(self, run: Events) -> Iterator[Output]:
        self.go_out_of_order()
        spec, store = self.spec, self._any_store
        store.reserve(np.bincount(run.stream, minlength=spec.streams), self._horizons())
        new, reached = run.tuples.contiguous(), run.reached
        kind = np.zeros(len(run), np.int64) if run.kind is None else run.kind
        compared = self.compared = np.zeros(len(run), np.int64)

        def step(
            condition: int, plan: Probes, new: OrderedTuples, begin: int, w: Windows, search: Search, reach: Reach,
            found: Lines,
        ) -> tuple[int, int]:  # fmt: skip
            found.state[AHEAD] = self._ahead
            end, status = join_events(condition, plan, new, kind, begin, w, search, reach, found, compared)
            self._ahead = int(found.state[AHEAD])
            return end, status

        for begin, end, found in self._probe.combine(new, step):
            out = self.hold.pass_through(self._made(found), reached[begin:end], begin)
            if len(out.ts):
                yield self._emit(out)
        turn = run.turn
        self._took_in(run.take(turn), new.words[:, turn])

    def _made(self, found: Lines) -> Made:
        columns = [] if self.spec.count_only else self.spec.emit
        words = np.empty((1 + len(columns), len(found.ts)), np.int64)
        words[0] = found.multiplicity
        for at, (stream, row) in enumerate(columns, 1):
            words[at] = self._any_store.words[row, found.slots[stream]]
        return Made(found.ts, found.by, words)

    def _emit(self, out: Made) -> Output:
        if self.spec.count_only:
            return Output(out.ts, (), out.by, out.words[0], int(out.words[0].sum()))
        return Output(out.ts, tuple(out.words[1:]), out.by, None, len(out.ts))

    def _put_back(self, stream: int, words: Words) -> None:
        if self.in_order:
            super()._put_back(stream, words)
        else:
            self._any_store.put_back(stream, words, self._horizons())

    @property
    def state_rows(self) -> int:
        """Tuples in the windows."""
        return self._store.held if self.in_order else self._any_store.held

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """As of the window join, tuples ahead of their turn among them; and the results that are held."""
        yield from super().window_contents(watermark)
        if not self.in_order:
            # Of every result its timestamp is kept beside its words.
            yield WindowContents(RESULTS, self.hold.held, self.hold.held * (2 + self._columns))

    def _standing(self, stream: int) -> Words:
        return self._in_store(self._store if self.in_order else self._any_store, stream)

    def snapshot_delta(self) -> list[StateUpdate]:
        """Those of the windows, and the results that are held."""
        saved = {"in_order": self.in_order, "most": self.hold.most}
        entries = [*super().snapshot_delta(), state_update("ordering", "state", encode_json(saved))]
        if not self.in_order:
            entries.append(state_update("ordering", "held", self.hold.as_bytes()))
        return entries

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state; tuples ahead of their turn are given by `put_ahead` afterwards."""
        mine = {entry.key: entry.value for entry in entries if entry.namespace == "ordering"}
        state, held = mine.get("state"), mine.get("held")
        if state is not None:
            saved = decode_json(state)
            self.hold.most = saved["most"]
            if saved["in_order"]:
                self.hold = HoldBuffer(self._columns)
                self.hold.most = saved["most"]
                self.go_in_order()
            else:
                self.go_out_of_order()
                if held is not None:
                    self.hold.restore(held)
        super().restore([entry for entry in entries if entry.namespace != "ordering"])

    def forget_ahead(self, watermark: int) -> None:
        """Tuples ahead of their turn leave the windows again: all that are newer than the watermark."""
        if not self.in_order:
            self._ahead = 0
            for stream, words in enumerate(self._any_store.take_all()):
                self._any_store.put_back(stream, words[:, words[TS] <= watermark], self._horizons())

    def put_ahead(self, streams: Words, words: Words) -> None:
        """Tuples that had entered before their turn enter again, and make nothing."""
        self._ahead = len(streams)
        for stream in range(self.spec.streams):
            if (streams == stream).any():
                self._any_store.put_back(stream, words[:, streams == stream], self._horizons())


class OrderedNode(Node):
    """A node behind an `EagerSynchronizer`; `early` says whether tuples are joined before their turn."""

    synchronizer: EagerSynchronizer

    def __init__(self, operator: OrderedJoin, inputs: tuple[int, ...], rows: int, raw: ReleaseSpec) -> None:
        super().__init__(operator, inputs, rows, raw)
        self.join = operator
        self.early = False

    def _synchronizer_of(self, spec: ReleaseSpec) -> EagerSynchronizer:
        return EagerSynchronizer(spec)

    @property
    def settled(self) -> bool:
        """Whether no tuple is ahead of its turn, and no result is held."""
        return self.synchronizer.ahead == 0 and self.join.hold.held == 0

    def admit(self, run: OrderedBatch, begin: int, end: int, below: Iterable[Inflow]) -> Synchronized:
        if not self.early and self.settled:
            self.join.go_in_order()
        self.synchronizer.early = self.early
        return super().admit(run, begin, end, below)

    def raw_part(self, run: OrderedBatch) -> OrderedBatch:
        return super().raw_part(run.turns()[0])

    def restore(self, entries: list[StateUpdate]) -> None:
        self.join.forget_ahead(self.synchronizer.watermark)
        super().restore(entries)
        if self.synchronizer.ahead:
            self.join.put_ahead(*self.synchronizer.entered())

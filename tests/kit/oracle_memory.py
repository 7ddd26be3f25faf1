"""What stands in windows and what it weighs, slow and obvious: lists of tuples, and a dictionary of events.

Invariant: shares no code with the kernels, nor with `operators/window_contents.py`, of whose weights it is told.
"""

from __future__ import annotations

from collections import deque

from slackwater.core.batch import Batch
from slackwater.core.memory import Memory, Resident
from slackwater.core.schema import Kind
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.rate_windows import RateWindows
from slackwater.operators.state_size import OfInput, Weights
from tests.kit.oracle_join import SlowWindows
from tests.kit.oracle_release import SlackRule, Tuple, TupleStages, oracle_tuple_release
from tests.kit.words import decode

Sizes = dict[object, int]
"""What every event weighs."""


class _NotEnded(TupleStages):
    """The input has not ended: what waits goes on waiting."""

    def synchronize(self, e: Tuple, ending: bool = False) -> None:
        if not ending:
            super().synchronize(e)

    def drain(self) -> None:
        pass


def windows_of_join(spec: WindowJoin, batch: Batch, rule: SlackRule) -> list[list[Tuple]]:
    """By tuple release, the tuples in the windows of a join once all of these have come, and no more.

    >>> spec = WindowJoin(windows=(2, 9), equalities=(), conditions=(), columns=(), emit=(), rows=2)
    >>> came = Batch.of([(0, 5), (1, 3), (1, 5), (1, 8), (0, 8)])
    >>> [[e.ts for e in window] for window in windows_of_join(spec, came, SlackRule(0))]
    [[8], [3, 5, 8]]
    """
    stages = _NotEnded(spec.streams)
    oracle_tuple_release(batch, spec.streams, rule, stages)
    windows = SlowWindows(spec)
    for step in stages.out:
        if isinstance(spec.policy, RateWindows) and not step.late:
            # Sizes change when a tuple meets the other window, whether it finds anything there or not.
            deque(windows.results(step.tuple), maxlen=0)
        windows.enter(step.tuple, step.met)
    return windows.standing(stages.t_join)


def weighed(windows: list[list[list[Tuple]]], weights: Weights) -> Memory:
    """The memory of a query in whose windows, by node and input, these tuples stand."""
    nodes: dict[str, Resident] = {}
    places: dict[str, Resident] = {}
    everything: Sizes = {}
    tuples = 0
    for node, inputs in zip(weights, windows, strict=True):
        of_node: Sizes = {}
        for of, window in zip(node.inputs, inputs, strict=True):
            found = _sizes(of, window)
            places[of.label] = _resident(len(window), found)
            for event, size in found.items():
                of_node[event] = max(size, of_node.get(event, 0))
                everything[event] = max(size, everything.get(event, 0))
        count = sum(map(len, inputs))
        nodes[node.label] = _resident(count, of_node)
        tuples += count
    sources = {member.source for node in weights for of in node.inputs for member in of.members}
    by_source: dict[str, Sizes] = {
        source: {event: size for event, size in everything.items() if isinstance(event, tuple) and event[0] == source}
        for source in sources
    }
    streams = {source: _resident(len(sizes), sizes) for source, sizes in by_source.items()}
    return Memory(_resident(tuples, everything), streams, nodes, places)


def _resident(tuples: int, sizes: Sizes) -> Resident:
    return Resident(tuples, len(sizes), sum(sizes.values()))


def _sizes(of: OfInput, window: list[Tuple]) -> Sizes:
    """The events of a window; a tuple whose members are not known is one of its own."""
    found: Sizes = {}
    for e in window:
        words = of.words or len(e.words)
        if not of.members:
            found[object()] = 8 * words
        for member in of.members:
            said = None
            if member.size is not None:
                said = decode(e.words[member.size], Kind.FLOAT if member.is_float else Kind.INT)
            size = int(said) if said is not None and 0 <= said < 2**48 else 8 * (member.words or words)
            event = (member.source, e.words[member.row])
            found[event] = max(size, found.get(event, 0))
    return found

"""The windows of a join as bounds between its streams.

Invariant: the bounds are what was written, window clauses, windows in brackets and conditions on event times together;
they connect all streams, and no clause contradicts another. One set of bounds per direction in which the paths may be
walked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise, product

from sqlglot import exp

from slackwater.core.errors import QueryError
from slackwater.core.results import ISTREAM
from slackwater.core.time import Bounds, before, format_duration, window_of, within
from slackwater.core.window_graph import UNBOUNDED, WindowGraph
from slackwater.expressions.tree import Expr
from slackwater.language.bound import StreamRef
from slackwater.language.event_times import inferred
from slackwater.language.nodes import Select, WindowForAll, WindowPath, refused
from slackwater.language.scope import did_you_mean, matching

_Pair = tuple[int, int]


def bind_windows(
    select: Select,
    streams: tuple[StreamRef, ...],
    conjuncts: Sequence[Expr],
    shown: tuple[StreamRef, ...] = (),
) -> tuple[tuple[StreamRef, ...], tuple[Bounds, ...], tuple[Expr, ...]]:
    """The streams with their windows, the bounds between them per alternative, and the conditions that are left.

    There are no bounds where one window for each stream says it all, in brackets or by conditions on event times.
    `shown`: what stands for the streams in what is said of them.
    """
    said: Bounds = ()
    left = tuple(conjuncts)
    # Results that leave later, and windows that count, go by the windows as written.
    if len(streams) > 1 and select.out.kind == ISTREAM and not any(stream.window for stream in streams):
        said, left = inferred(conjuncts, streams)
    if not select.windows and not said:
        missing = [at for at, stream in enumerate(streams) if stream.range is None and stream.window is None]
        if missing and len(streams) > 1:
            raise refused(select.streams[missing[0]], no_window((shown or streams)[missing[0]].alias))
        return streams, (), left
    reader = _Reader(select, shown or streams)
    ranges = [window_of(s, stream.range, len(streams)) for s, stream in enumerate(streams) if stream.range is not None]
    stated = [reader.ways(clause) for clause in select.windows]
    alternatives = tuple(tuple(chain(*ranges, *chosen, said)) for chosen in product(*stated))
    graph = WindowGraph(len(streams), alternatives)
    if graph.apart is not None:
        raise reader.unconnected(graph) if select.windows else reader.unbounded(graph)
    if graph.plain and not select.windows:
        return tuple(replace(one, range=size) for one, size in zip(streams, graph.windows, strict=True)), (), left
    return streams, tuple(dict.fromkeys(alternatives)), left


def no_window(alias: str) -> str:
    """What is said of a stream of a join without a window."""
    return f"stream {alias} needs a window in a join, as in {alias} [RANGE 5 SECONDS]"


class _Reader:
    """Turns one clause after the other into bounds, and remembers what has been said about each pair."""

    def __init__(self, select: Select, streams: Sequence[StreamRef]) -> None:
        self.select, self.streams = select, streams
        self.clauses = select.windows
        self.aliases = [stream.alias for stream in streams]
        self.said: dict[tuple[str, _Pair], int] = {}

    def ways(self, clause: WindowForAll | WindowPath) -> list[Bounds]:
        """What a clause says; a path that may be walked both ways says one of two things."""
        count = len(self.aliases)
        if isinstance(clause, WindowForAll):
            self._say("all", (0, 0), clause.size, clause)
            return [tuple(bound for s in range(count) for bound in window_of(s, clause.size, count))]
        steps = list(zip(pairwise(self._path(clause)), clause.sizes, strict=True))
        for pair, size in steps:
            self._check(clause, pair, size)
        if not clause.ordered:
            return [tuple(bound for (a, b), size in steps for bound in within(a, b, size))]
        there = tuple(bound for (a, b), size in steps for bound in before(a, b, size))
        back = tuple(bound for (a, b), size in steps for bound in before(b, a, size))
        return [there, back] if clause.reversible else [there]

    def _path(self, clause: WindowPath) -> list[int]:
        found: list[int] = []
        for name in clause.streams:
            at = self._position(name)
            if at in found:
                message = f"{self.aliases[at]} is named twice here; a window is between different streams"
                raise refused(name, message)
            found.append(at)
        return found

    def _position(self, name: exp.Identifier) -> int:
        found = matching(name.name, self.aliases)
        if len(found) == 1:
            return self.aliases.index(found[0])
        hint = did_you_mean(name.name, self.aliases) or f"; it has {', '.join(self.aliases)}"
        raise refused(name, f"no stream '{name.name}' in FROM{hint}")

    def _check(self, clause: WindowPath, pair: _Pair, size: int) -> None:
        if not clause.ordered:
            self._say("apart", (min(pair), max(pair)), size, clause)
        elif clause.reversible:
            self._say("either way", (min(pair), max(pair)), size, clause)
        else:
            opposite = self.said.get(("before", pair[::-1]))
            if opposite is not None:
                first, then = (self.aliases[s] for s in pair)
                message = f"{first} before {then} contradicts {then} before {first}, which stands here already"
                raise refused(clause, message)
            self._say("before", pair, size, clause)

    def _say(self, what: str, pair: _Pair, size: int, clause: WindowForAll | WindowPath) -> None:
        known = self.said.setdefault((what, pair), size)
        if known != size:
            whose = (
                "for all streams" if what == "all" else f"between {self.aliases[pair[0]]} and {self.aliases[pair[1]]}"
            )
            message = (
                f"the window {whose} is {format_duration(known)} already, and cannot be {format_duration(size)} too"
            )
            raise refused(clause, message)

    def unconnected(self, graph: WindowGraph) -> QueryError:
        """What to say of a graph that leaves two streams as far apart as they like."""
        assert graph.apart is not None, "a graph that is connected"
        newer, older = graph.apart
        near = [s for s in range(graph.streams) if max(graph.widest[s][newer], graph.widest[newer][s]) < UNBOUNDED]
        rest = [s for s in range(graph.streams) if s not in near]
        ours, theirs = (", ".join(self.aliases[s] for s in some) for some in (near, rest))
        example = f"WINDOW ({self.aliases[newer]}, {self.aliases[older]}) = 5 SECONDS"
        message = f"no window connects {theirs} with {ours}; add one, as in {example}"
        return refused(self.clauses[0], message, (self.clauses[0].place[0], self.clauses[-1].place[1]))

    def unbounded(self, graph: WindowGraph) -> QueryError:
        """What to say where conditions on event times leave two streams as far apart as they like."""
        assert graph.apart is not None, "a graph that is connected"
        newer, older = (self.aliases[at] for at in graph.apart)
        late, early = (f"{self.aliases[at]}.{self.streams[at].schema.time}" for at in graph.apart)
        message = (
            f"nothing says how much newer than {older} {newer} may be; add a condition, as in {late} <= {early} +"
            " INTERVAL 5 SECONDS, or a window after each stream"
        )
        return refused(self.select.streams[graph.apart[0]], message)

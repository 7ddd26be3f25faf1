"""Windows that differ from pair to pair: the report's approaches against each other.

Fig. 13 joins four streams with one window for all pairs but one, by the largest window of all (GCA) and by each
stream's largest (LCA). Fig. 14 joins four streams along a path that may be walked both ways, by the nested loop from
stream to stream (NLW-join, two joins put together) and by LCA over the windows that follow from the path. Of both
figures only the sentences of the text can be judged. The report does not tell the windows of the path, so there are
several, and a finding holds if it does for all of them.

The third case beside Fig. 13 is ours: 1 s between two streams that are each within 0.1 s of a third is in truth 0.2 s,
which the report does not ask for where a window is stated.

References: 002 §5.3, Fig. 13 and 14.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import evenly, finish, logarithmic
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from papers.experiments.window_join_work import CHOSEN, IN_ORDER, IN_TURN, WorkTrial
from papers.experiments.window_joins import MEASURES, TIMES_LESS, beats
from slackwater.core.time import MILLISECOND, before, within
from slackwater.core.window_graph import WindowGraph

STREAMS = 4
LEGS_MS = (250, 500, 1000)
"""The windows from one stream of the path to the next."""
TITLES = {
    "merge gca": "GCA (MW-join)", "merge lca": "LCA (MW-join)",
    "nested_loop gca": "GCA (NLW-join)", "nested_loop lca": "LCA (NLW-join)",
    "hash gca": "GCA (HW-join)", "hash lca": "LCA (HW-join)",
    "nested_loop pairwise": "NLW-join along the path", CHOSEN: "the engine",
}  # fmt: skip
COLORS = {
    "merge gca": "#c05a00", "merge lca": "#0b6e4f", "nested_loop gca": "#e8a06a", "nested_loop lca": "#7fbfa5",
    "hash gca": "#8a1c4a", "hash lca": "#6aa0e8", "nested_loop pairwise": "#1f4e9c", CHOSEN: "#888888",
}  # fmt: skip
UNITS = {"service_us": "service time (µs a tuple, log)", "comparisons": "comparisons a tuple (log)"}
CASES = ((800, 1000), (100, 1000), (100, 200))
"""The window of all pairs and of the one that differs, in milliseconds; the last follows from the one before."""
BOTH = ("gca", "lca")
RATES = ("similar rates", "variable rates")
PATH_WAYS = ("nested_loop pairwise", "merge lca", CHOSEN)


def one_wide_pair(narrow_ms: int, wide_ms: int) -> WindowGraph:
    """All streams within a narrow window of each other, but for the first two.

    >>> one_wide_pair(100, 1000).closed[0][0]
    (0, 200000, 100000, 100000)
    """
    bounds = [
        bound
        for i in range(STREAMS) for j in range(i)
        for bound in within(j, i, MILLISECOND * (wide_ms if (j, i) == (0, 1) else narrow_ms))
    ]  # fmt: skip
    return WindowGraph(STREAMS, (tuple(bounds),))


def path_both_ways(leg_ms: int) -> WindowGraph:
    """A, B, C and D in this order or the other way round, each so near to the next."""
    there = tuple(bound for s in range(STREAMS - 1) for bound in before(s, s + 1, MILLISECOND * leg_ms))
    back = tuple(bound for s in range(STREAMS - 1) for bound in before(s + 1, s, MILLISECOND * leg_ms))
    return WindowGraph(STREAMS, (there, back))


def approach_trials(scale: Scale) -> list[Trial]:
    """Both approaches by every algorithm, and the engine, for every size of the narrow windows."""
    ways = [*(f"{algorithm} {approach}" for algorithm in ("merge", "nested_loop", "hash") for approach in BOTH), CHOSEN]
    return [
        WorkTrial(
            Stage("comparable rates", seed, change=IN_ORDER), way,
            parameter="wide by narrow window", value=wide / narrow, graph=one_wide_pair(narrow, wide),
        )
        for seed in scale.seeds for narrow, wide in CASES for way in ways
    ]  # fmt: skip


def path_trials(scale: Scale) -> list[Trial]:
    """The path at similar rates and at different ones, tuples taken in turn and in order."""
    return [
        WorkTrial(
            Stage(rates, seed, change=how), way, parameter="leg, ms", value=float(leg), graph=path_both_ways(leg)
        )
        for seed in scale.seeds for rates in RATES for how in (IN_TURN, IN_ORDER) for leg in LEGS_MS
        for way in PATH_WAYS if way != CHOSEN or how == IN_ORDER
    ]  # fmt: skip


def _named(narrow: int, wide: int) -> str:
    return f"{narrow / 1000:g} s, one pair {wide / 1000:g} s"


def approach_claims(rows: Sequence[Row]) -> list[Claim]:
    """LCA outperforms GCA even for small variations between windows."""
    found = []
    for narrow, wide in CASES:
        ours = "" if wide == 1000 else "ours: "
        says = f"{ours}LCA takes less than GCA, windows {_named(narrow, wide)}"
        mine = pick(rows, value=wide / narrow)
        found += [beats(says, mine, "merge gca", "merge lca", key) for key in MEASURES]
    for algorithm in ("nested_loop", "hash"):
        says = f"ours: LCA takes less than GCA by {algorithm} too"
        found.append(beats(says, rows, f"{algorithm} gca", f"{algorithm} lca", "comparisons"))
    return found


def path_claims(rows: Sequence[Row]) -> list[Claim]:
    """The nested loop is better where rates are similar, LCA where they are not."""
    found = []
    for rates, fast, slow in (
        ("similar rates", "nested_loop pairwise", "merge lca"),
        ("variable rates", "merge lca", "nested_loop pairwise"),
    ):
        names = ("NLW-join", "LCA") if slow == "merge lca" else ("LCA", "NLW-join")
        for how in (IN_TURN, IN_ORDER):
            mine = pick(rows, workload=rates, change=how)
            says = f"{rates}: {names[0]} takes less than {names[1]} on a path, tuples {how}"
            found += [_for_all_legs(says, mine, slow, fast, key) for key in MEASURES]
    return found


def _for_all_legs(says: str, rows: Sequence[Row], slow: str, fast: str, key: str) -> Claim:
    claims = [beats(says, pick(rows, value=float(leg)), slow, fast, key) for leg in LEGS_MS]
    judged = [claim.holds for claim in claims]
    if None in judged:
        return Claim(claims[0].says, "not offered", None)
    reported = [claim.measured.removesuffix(TIMES_LESS) for claim in claims]
    by_leg = ", ".join(f"{times} ({leg / 1000:g} s)" for leg, times in zip(LEGS_MS, reported, strict=True))
    return Claim(claims[0].says, by_leg + TIMES_LESS, all(judged))


def draw_approaches(figure: Figure, rows: Sequence[Row]) -> None:
    """A column for every size of the windows: service time above, comparisons below, a bar for every way."""
    grid = figure.subplots(2, len(CASES), squeeze=False, sharey="row")
    for column, (narrow, wide) in enumerate(CASES):
        mine = over_seeds(pick(rows, value=wide / narrow))
        for axes, key in zip(grid[:, column], UNITS, strict=True):
            for place, way in enumerate(way for way in TITLES if way != "nested_loop pairwise"):
                for row in pick(mine, way=way):
                    if key in row:
                        axes.bar(place, row[key], 0.8, color=COLORS[way], label=TITLES[way])
            logarithmic(axes)
            axes.set_xticks([])
            finish(axes, f"windows {_named(narrow, wide)}", "", UNITS[key], legend=column == 0)


def draw_path(figure: Figure, rows: Sequence[Row]) -> None:
    """A column for similar and for different rates, each taken in turn and in order; over the windows of the path."""
    cases = [(rates, how) for rates in RATES for how in (IN_TURN, IN_ORDER)]
    grid = figure.subplots(2, len(cases), squeeze=False, sharey="row")
    for column, (rates, how) in enumerate(cases):
        mine = over_seeds(pick(rows, workload=rates, change=how))
        for axes, key in zip(grid[:, column], UNITS, strict=True):
            for way in PATH_WAYS:
                points = sorted((row["value"], row[key]) for row in pick(mine, way=way) if key in row)
                if points:
                    axes.plot(*zip(*points, strict=True), label=TITLES[way], color=COLORS[way], marker="o")
            logarithmic(axes)
            evenly(axes, LEGS_MS)
            finish(axes, f"{rates}, tuples {how}", "window of a leg (ms)", UNITS[key], legend=column in (0, 1))


APPROACHES = Experiment(
    "002-fig13",
    "Four streams of 1000 tuples/s, all pairs within one window but for one pair: GCA and LCA",
    approach_trials,
    approach_claims,
    draw_approaches,
    ("value", "way", "comparisons", "service_us", "results"),
)
PATH = Experiment(
    "002-fig14",
    "A path of four streams that may be walked both ways: NLW-join and LCA",
    path_trials,
    path_claims,
    draw_path,
    ("workload", "change", "value", "way", "comparisons", "service_us", "results"),
)

"""The joins of the W-join report against each other: what a tuple costs, by algorithm and number of streams.

Ripple join and XJoin are the baselines, nested loop (NLW), hash (HW) and merge (MW) the report's own; `chosen` is what
the planner takes when no algorithm is asked for. Results are counted, and where it says so made as rows. The paper's
numbers can only be read off its figures, so its claims are the sentences of its text; "order of magnitude" is judged as
five times.

References: 002 Fig. 7, 8 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import evenly, finish, logarithmic
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from papers.experiments.window_join_work import CHOSEN, IN_ORDER, IN_TURN, ROWS, STORES, STRETCH, WorkTrial

MUCH = 5.0
"""What is judged as (almost) an order of magnitude."""
NEAR = 1.3
"""How much more than the best join the planner's choice may take."""
CLOSE = 1.5
"""Within so much two joins cost the same."""
FEW, MANY = (2, 3, 4), (2, 3, 4, 5, 6)
TIMES_LESS = " times less"
MEASURES = {"comparisons": "comparisons", "service_us": "service time"}
TITLES = {
    "nested_loop": "NLW-join", "hash": "HW-join", "merge": "MW-join", "ripple": "ripple join", "xjoin": "XJoin",
    CHOSEN: "the planner's choice",
}  # fmt: skip
STYLES: dict[str, dict[str, Any]] = {
    "nested_loop": {"color": "#1f4e9c", "marker": "s"},
    "merge": {"color": "#c05a00", "marker": "^"},
    "hash": {"color": "#0b6e4f", "marker": "o"},
    "ripple": {"color": "#888888", "marker": "x"},
    "xjoin": {"color": "#8a1c4a", "marker": "D"},
    CHOSEN: {"color": "#222222", "linestyle": ":"},
}


def _trials(
    workload: str, ways: Sequence[str], streams: Sequence[int], taken: Sequence[str], scale: Scale
) -> list[Trial]:
    minutes = 360.0 if scale.quick and workload == STORES else None
    return [
        WorkTrial(Stage(workload, seed, minutes, change=how), way, parameter="streams", value=float(n))
        for seed in scale.seeds for how in taken for n in streams for way in ways
    ]  # fmt: skip


def _ratios(rows: Iterable[Row], slow: str, fast: str, key: str) -> list[float]:
    """How many times less `fast` takes than `slow`, case by case."""
    case = ("workload", "change", "value", "seed")
    of = {tuple(row[k] for k in case): row[key] for row in pick(rows, way=fast)}
    pairs = [(row[key], of.get(tuple(row[k] for k in case))) for row in pick(rows, way=slow)]
    return [a / max(b, 1e-9) for a, b in pairs if b is not None]


def _beats(rows: Sequence[Row], slow: str, fast: str, key: str, times: float = 1.0, where: str = "") -> Claim:
    much = f"at least {times:g} times less than" if times > 1 else "less than"
    return beats(f"{TITLES[fast]} takes {much} {TITLES[slow]}{where}", rows, slow, fast, key, times)


def beats(says: str, rows: Sequence[Row], slow: str, fast: str, key: str, times: float = 1.0) -> Claim:
    """A claim that one way takes so many times less than another, in every case.

    >>> rows = [{"workload": "", "change": "", "value": 2, "seed": 0, "offered": True, "way": way, "comparisons": cost}
    ...         for way, cost in (("a", 6.0), ("b", 2.0))]
    >>> beats("b takes less than a", rows, "a", "b", "comparisons")
    Claim(says='b takes less than a (comparisons)', measured='3.00 to 3.00 times less', holds=True)
    """
    says, found = f"{says} ({MEASURES[key]})", _ratios(rows, slow, fast, key)
    if not found:
        return Claim(says, "not offered", None)
    return Claim(says, f"{min(found):.2f} to {max(found):.2f}{TIMES_LESS}", min(found) > times)


def _chosen(rows: Sequence[Row], made: str = "") -> Claim:
    """Ours: what the planner chooses is near the best there is, case by case."""
    says = f"ours: the planner's choice takes at most {NEAR:g} times as long as the best (service time"
    says += ", rows made)" if made else ", results counted)"
    ratios = []
    for mine in pick(rows, way=CHOSEN + made):
        case = {key: mine[key] for key in ("workload", "change", "value", "seed")}
        others = [
            row["service_us"] for row in pick(rows, **case)
            if row is not mine and row["way"].endswith(ROWS) == bool(made)
        ]  # fmt: skip
        ratios.append(mine["service_us"] / max(min(others), 1e-9))
    if not ratios:
        return Claim(says, "not offered", None)
    return Claim(says, f"{min(ratios):.2f} to {max(ratios):.2f} times", max(ratios) <= NEAR)


def nested_loop_claims(rows: Sequence[Row]) -> list[Claim]:
    """NLW beats the ripple join; MW is almost an order of magnitude faster than NLW."""
    return [
        *(_beats(rows, "ripple", "nested_loop", key) for key in MEASURES),
        *(_beats(rows, "nested_loop", "merge", key, MUCH) for key in MEASURES),
        _chosen(rows),
    ]


def hash_claims(rows: Sequence[Row]) -> list[Claim]:
    """HW beats XJoin."""
    return [*(_beats(rows, "xjoin", "hash", key) for key in MEASURES), _chosen(rows), _chosen(rows, ROWS)]


def variable_claims(rows: Sequence[Row]) -> list[Claim]:
    """MW is more than an order of magnitude better than NLW, with any number of streams; HW is the best."""
    found = []
    for how in (IN_TURN, IN_ORDER):
        mine = pick(rows, change=how)
        found += [_beats(mine, "nested_loop", "merge", key, MUCH, f", tuples {how}") for key in MEASURES]
    return [*found, _best(rows), _chosen(rows)]


def comparable_claims(rows: Sequence[Row]) -> list[Claim]:
    """NLW and MW converge; HW is the best."""
    found = []
    for key, name in MEASURES.items():
        says = f"with more streams of comparable rates NLW-join and MW-join converge ({name})"
        two, six = (_ratios(pick(rows, value=n), "nested_loop", "merge", key) for n in (MANY[0], MANY[-1]))
        if not two or not six:
            found.append(Claim(says, "not offered", None))
            continue
        before, after = sum(two) / len(two), sum(six) / len(six)
        measured = f"MW-join takes {before:.2f} times less with {MANY[0]}, {after:.2f} with {MANY[-1]} streams"
        found.append(Claim(says, measured, after <= CLOSE and after <= 1.1 * before))
    return [*found, _best(rows), _chosen(rows)]


def _best(rows: Sequence[Row]) -> Claim:
    ratios = [x for slow in ("nested_loop", "merge") for key in MEASURES for x in _ratios(rows, slow, "hash", key)]
    says = "HW-join is the best with any number of streams (comparisons and service time)"
    if not ratios:
        return Claim(says, "not offered", None)
    return Claim(says, f"at least {min(ratios):.1f} times less than the others", min(ratios) > 1)


def changing_claims(rows: Sequence[Row]) -> list[Claim]:
    """When the rate of D falls and rises MW is greatly improved, and the others hardly change."""
    found = []
    for how in (IN_TURN, IN_ORDER):
        for way, least, most in (("merge", 2.0, 1e9), ("nested_loop", 1 / CLOSE, CLOSE), ("hash", 1 / CLOSE, CLOSE)):
            effect = "is greatly improved (twice and more)" if way == "merge" else "hardly changes (within 1.5 times)"
            says = f"{TITLES[way]} {effect} when the rate of D varies, tuples {how} (comparisons)"
            same, varied = (
                [row["comparisons"] for row in pick(rows, way=way, change=how, workload=name)]
                for name in ("comparable rates", "one varies")
            )
            if not same or not varied:
                found.append(Claim(says, "not offered", None))
                continue
            times = sum(same) / sum(varied)
            found.append(Claim(says, f"{times:.2f} times less", least <= times <= most))
    return [*found, _chosen(rows)]


def draw_over_time(ways: Sequence[str], figure: Figure, rows: Sequence[Row]) -> None:
    """A panel for each number of streams: service time above, comparisons below, over the tuples processed."""
    panels = figure.subplots(2, len(FEW), squeeze=False)
    for above, below, streams in zip(panels[0], panels[1], FEW, strict=True):
        mine = pick(rows, value=streams)
        first = min((row["seed"] for row in mine), default=0)
        for way in ways:
            for row in pick(mine, way=way, seed=first):
                for axes, series in ((above, "service_over_time"), (below, "comparisons_over_time")):
                    x = [STRETCH * (i + 1) / 1000 for i in range(len(row.get(series, ())))]
                    style = STYLES[way] | {"marker": ""}
                    axes.plot(x, row.get(series, ()), label=TITLES[way], **style)
        finish(above, f"{streams} streams", "tuples processed (thousands)", "service time (µs a tuple)", legend=True)
        finish(below, "", "tuples processed (thousands)", "comparisons a tuple")


def draw_by_streams(taken: Sequence[str], figure: Figure, rows: Sequence[Row]) -> None:
    """A column for each way to take tuples: service time above, comparisons below, over the number of streams."""
    panels = figure.subplots(2, len(taken), squeeze=False)
    for column, how in enumerate(taken):
        mine = over_seeds(pick(rows, change=how))
        for axes, key in zip(panels[:, column], ("service_us", "comparisons"), strict=True):
            for way in TITLES:
                points = sorted((row["value"], row[key]) for row in pick(mine, way=way) if key in row)
                if points:
                    axes.plot(*zip(*points, strict=True), label=TITLES[way], **STYLES[way])
            logarithmic(axes)
            evenly(axes, MANY)
            unit = "service time (µs a tuple, log)" if key == "service_us" else "comparisons a tuple (log)"
            finish(axes, f"tuples {how}", "streams", unit, legend=True)


def draw_changes(figure: Figure, rows: Sequence[Row]) -> None:
    """Bars: comparisons of a tuple with four streams of one rate, and with the fourth one varying."""
    names = ("comparable rates", "one varies")
    for axes, how in zip(figure.subplots(1, 2, sharey=True), (IN_TURN, IN_ORDER), strict=True):
        for place, way in enumerate(("nested_loop", "merge", "hash")):
            for shift, name in enumerate(names):
                mine = over_seeds(pick(rows, change=how, way=way, workload=name))
                height = sum(row["comparisons"] for row in mine) / max(1, len(mine))
                color, alpha = STYLES[way]["color"], 1.0 if shift == 0 else 0.5
                axes.bar(place + 0.4 * shift, height, 0.38, color=color, alpha=alpha, label=f"{TITLES[way]}, {name}")
        logarithmic(axes)
        axes.set_xticks([])
        finish(axes, f"tuples {how}", "", "comparisons a tuple (log)", legend=True)


COLUMNS = ("workload", "change", "value", "way", "comparisons", "service_us", "results")
BOTH = (IN_TURN, IN_ORDER)
NESTED_LOOPS = Experiment(
    "002-fig7",
    "Ripple join, NLW-join and MW-join on store sales (window 1 h)",
    partial(_trials, STORES, ("ripple", "nested_loop", "merge", CHOSEN), FEW, (IN_ORDER,)),
    nested_loop_claims,
    partial(draw_over_time, ("ripple", "nested_loop", "merge", CHOSEN)),
    COLUMNS,
)
HASHES = Experiment(
    "002-fig8",
    "XJoin and HW-join on store sales (window 1 h)",
    partial(_trials, STORES, ("xjoin", "hash", CHOSEN, "hash" + ROWS, CHOSEN + ROWS), FEW, (IN_ORDER,)),
    hash_claims,
    partial(draw_over_time, ("xjoin", "hash", CHOSEN)),
    COLUMNS,
)
BY_STREAMS = Experiment(
    "002-fig9a",
    "Joins of 2 to 6 streams of 100 to 1000 tuples/s (window 1 s)",
    partial(_trials, "variable rates", ("nested_loop", "merge", "hash", CHOSEN), MANY, BOTH),
    variable_claims,
    partial(draw_by_streams, BOTH),
    COLUMNS,
)
BY_STORES = Experiment(
    "002-fig9b",
    "Joins of 2 to 6 streams of comparable rates: store sales (window 1 h)",
    partial(_trials, STORES, ("nested_loop", "merge", "hash", CHOSEN), MANY, (IN_ORDER,)),
    comparable_claims,
    partial(draw_by_streams, (IN_ORDER,)),
    COLUMNS,
    size=(7.0, 8.0),
)


def changing_trials(scale: Scale) -> list[Trial]:
    """Four streams of 1000 tuples/s, and the same with D between 10 and 1000."""
    names = ("comparable rates", "one varies")
    return [
        trial for name in names for trial in _trials(name, ("nested_loop", "merge", "hash", CHOSEN), (4,), BOTH, scale)
    ]


CHANGING_RATE = Experiment(
    "002-fig9c",
    "Four streams of 1000 tuples/s, and one of them changing between 10 and 1000 (window 1 s)",
    changing_trials,
    changing_claims,
    draw_changes,
    COLUMNS,
    size=(11.0, 5.0),
)

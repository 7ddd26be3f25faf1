"""Ours: every kind of disorder in the zoo, every controller, recall and error, tuple by tuple and in epochs.

Invariant: a controller is held against a constant and a schedule that know the future and emit results the same way.
What is not judged is the first minute and, where delays change, the first event of its kind (`zoo_runs.judged_from`).

An ERROR target has no recall: there, Φ is the share of windows within the bound, and what was promised is its
confidence of .95.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from papers.experiments.experiment import Claim, Experiment, Scale, pick
from papers.experiments.figures import finish
from papers.experiments.stages import Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial
from papers.experiments.zoo_pictures import pictures
from papers.experiments.zoo_runs import CONFIDENCE, MINUTES, PERIOD_S, SCHEDULE, ZooTrial
from slackwater.workloads.disorder import ZOO, DisorderKind

RECALLS, ERRORS = (0.9, 0.95, 0.99), (0.01, 0.05)
EPOCHS_MS = (0, 1000)
EPOCH = "epoch (ms)"
OURS = "steady"
PUBLISHED = ("model", "pd")
TWO_G_MS = 20
"""Two granularities."""
LEAST = {DisorderKind.ALIKE: (0.97, 0.90), DisorderKind.WRONG_CLOCKS: (0.97, 0.90), DisorderKind.CHANGING: (0.95, None)}
"""Φ(.99Γ) and Φ(Γ) of joins, by kind."""
PLAIN = "exponential"
"""The member that those with wrong clocks are when their clocks are right."""


def trials(scale: Scale) -> list[Trial]:
    """All members. A quick run asks our controller alone, for one recall and one error.

    The published controllers run over the first seed only: nothing is claimed of them here, and they take the longest.
    """
    recalls, errors = ((0.95,), (0.01,)) if scale.quick else (RECALLS, ERRORS)
    found: list[Trial] = []
    for name in ZOO:
        for seed in scale.seeds:
            published = () if scale.quick or seed > scale.seed else PUBLISHED
            ways = (CLAIRVOYANT, SCHEDULE, OURS, *published)
            for epoch_ms in EPOCHS_MS:
                for further, targets in (("", recalls), ("sum", errors)):
                    stage = Stage(f"zoo/{name}", seed, MINUTES, epoch_ms=epoch_ms, further=further)
                    found += [_trial(stage, way, target, seed == scale.seed) for way in ways for target in targets]
    return found


def _trial(stage: Stage, way: str, target: float, series: bool) -> ZooTrial:
    clause = (
        f"RECALL {target:g} OVER {PERIOD_S} SECONDS" if stage.joins else f"ERROR {target:g} CONFIDENCE {CONFIDENCE:g}"
    )
    return ZooTrial(stage, way, clause, f"controller = '{way}'", target, PERIOD_S, EPOCH, float(stage.epoch_ms), series)


@dataclass(frozen=True)
class Held:
    """A number of one row, what it must be, and whether it is."""

    row: Row
    number: float
    holds: bool


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What our own controller is held to, release by release."""
    mine = [_beside(row, rows) for row in pick(rows, way=OURS)]
    found = []
    for epoch_ms in EPOCHS_MS:
        release = f"epochs of {epoch_ms} ms" if epoch_ms else "tuple release"
        found += [claim for kind in DisorderKind for claim in _of_kind(pick(mine, value=epoch_ms), kind, release)]
    for what, asked in (("recall", _joins(mine)), ("share of sums", _sums(mine))):
        near = _numbers(asked, "off", lambda x: x <= 0.01)
        found.append(_claim(f"reported and true {what} differ by .01 at most", near, max))
    found += [
        _claim("the truth lies between low and high", _numbers(mine, "inside", lambda x: x == 1.0), min),
        _as_without(mine),
    ]  # fmt: skip
    return found


def _of_kind(rows: Sequence[Row], kind: DisorderKind, release: str) -> Iterator[Claim]:
    mine = [row for row in rows if _kind(row) is kind]
    phi99, phi = LEAST[kind]
    where = f"{release}, {kind.value}"
    joins, sums = _joins(mine), _sums(mine)
    yield _claim(f"{where}: Φ(.99Γ) is {phi99:g} or more", _numbers(joins, "phi99", lambda x: x >= phi99), min)
    if phi is not None:
        yield _claim(f"{where}: Φ(Γ) is {phi:g} or more", _numbers(joins, "phi", lambda x: x >= phi), min)
    enough = CONFIDENCE if phi is not None else 0.99 * CONFIDENCE
    yield _claim(f"{where}: Φ(ε) of sums is {enough:.2g} or more", _numbers(sums, "phi", lambda x: x >= enough), min)
    times = 1.0 if kind is DisorderKind.CHANGING else 1.5
    bound = f"{times:g} times the best constant's" + ("" if kind is DisorderKind.CHANGING else " + 2 g")
    yield _claim(
        f"{where}: latency is at most {bound}",
        [
            Held(row, row["times_constant"], row["latency_ms"] <= _allowed(row, times, kind))
            for row in mine if "times_constant" in row
        ],
        max,
    )  # fmt: skip


def _allowed(row: Row, times: float, kind: DisorderKind) -> float:
    return times * float(row["constant_ms"]) + (0 if kind is DisorderKind.CHANGING else TWO_G_MS)


def _as_without(rows: Sequence[Row]) -> Claim:
    says = "wrong clocks: Φ is at most .02 below, latency at most a tenth + 2 g above what it is without them"
    plain = {_case(row): row for row in rows if _member(row) == PLAIN}
    found = []
    for row in rows:
        beside = plain.get(_case(row))
        if _kind(row) is DisorderKind.WRONG_CLOCKS and beside is not None:
            more = row["latency_ms"] / max(beside["latency_ms"], 1e-9)
            holds = row["latency_ms"] <= 1.1 * beside["latency_ms"] + TWO_G_MS and row["phi"] >= beside["phi"] - 0.02
            found.append(Held(row, more, holds))
    return _claim(says, found, max)


def _claim(says: str, held: Sequence[Held], worst: Callable[..., Held]) -> Claim:
    """A claim about every case, with the worst one named."""
    if not held:
        return Claim(says, "not offered", None)
    # Of those that miss the worst; where none does, the one that is nearest to it.
    missed = [one for one in held if not one.holds]
    named = worst(missed or held, key=lambda one: one.number)
    reported = f"{named.number:.3f} ({_member(named.row)}, {named.row['target']:g}, seed {named.row['seed']})"
    return Claim(says, f"{reported}; {len(held) - len(missed)} of {len(held)} cases", not missed)


def _numbers(rows: Sequence[Row], key: str, holds: Callable[[float], bool]) -> list[Held]:
    return [Held(row, row[key], holds(row[key])) for row in rows if key in row]


def _joins(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["target"] in RECALLS]


def _sums(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["target"] in ERRORS]


def _member(row: Row) -> str:
    return str(row["workload"]).removeprefix("zoo/")


def _kind(row: Row) -> DisorderKind:
    return ZOO[_member(row)].kind


def _case(row: Row) -> tuple[int, float, float]:
    return row["seed"], row["target"], row["value"]


def _beside(row: Row, rows: Sequence[Row]) -> Row:
    """A row with the latency of the clairvoyants over the same streams."""
    found = row.copy()
    for way, name in ((CLAIRVOYANT, "constant"), (SCHEDULE, "schedule")):
        for best in pick(rows, way=way, workload=row["workload"], value=row["value"], target=row["target"]):
            if best["seed"] == row["seed"]:
                found[f"{name}_ms"] = best["latency_ms"]
                found[f"times_{name}"] = row["latency_ms"] / max(best["latency_ms"], 1.0)
    return found


def completed(rows: Sequence[Row]) -> list[Row]:
    """Rows of controllers with what the clairvoyants would have waited."""
    searched = (CLAIRVOYANT, SCHEDULE)
    return [_beside(row, rows) if row["offered"] and row["way"] not in searched else row for row in rows]


COLOURS = {0.9: "#6aa0e8", 0.95: "#1f4e9c", 0.99: "#0b2a5c", 0.01: "#8a1c4a", 0.05: "#d77fa6"}


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Fulfilment, latency and the error of what is reported: a line a member, a dot a case."""
    mine = [_beside(row, rows) for row in pick(rows, way=OURS)]
    names = [name for name in ZOO if any(_member(row) == name for row in mine)]
    left, middle, right = figure.subplots(1, 3, sharey=True)
    panels: tuple[tuple[Axes, Callable[[Row], float | None], str], ...] = (
        (left, lambda row: row.get("phi99"), "Φ(.99Γ), Φ(ε)"),
        (middle, lambda row: row.get("times_constant"), "latency, times the best constant's (log)"),
        (right, lambda row: max(row["off"], 1e-5) if "off" in row else None, "|reported - true| (log)"),
    )
    for axes, number, label in panels:
        for row in mine:
            shown = number(row)
            if shown is None:
                continue
            place = len(names) - 1 - names.index(_member(row))
            shift = 0.12 * (sorted(COLOURS).index(row["target"]) - 2)
            colour = COLOURS[row["target"]]
            axes.plot(
                shown, place + shift, "o" if row["value"] == 0 else "s", markersize=4.5,
                color=colour, markerfacecolor=colour if row["value"] == 0 else "white",
            )  # fmt: skip
        finish(axes, "", label, "")
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in reversed(names)])
    left.axvline(0.97, color="#b00020", linestyle="--", linewidth=1)
    left.set_xlim(-0.03, 1.03)
    right.set_xlim(5e-6, 2)
    for axes, bound in ((middle, 1.5), (right, 0.01)):
        axes.set_xscale("log")
        axes.axvline(bound, color="#b00020", linestyle="--", linewidth=1)
    middle.axvline(1.0, color="#555555", linestyle=":", linewidth=1)
    handles = [
        Line2D([], [], linestyle="", marker="o", color=colour, label=f"{'Γ' if target > 0.5 else 'ε'} = {target:g}")
        for target, colour in COLOURS.items()
        if any(row["target"] == target for row in mine)
    ]
    epochs: dict[str, Any] = {"marker": "s", "color": "#444444", "markerfacecolor": "white", "label": "epochs of 1 s"}
    handles.append(Line2D([], [], linestyle="", **epochs))
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8)


ZOO_OF_DISORDER = Experiment(
    "zoo",
    f"The zoo of disorder: {len(ZOO)} kinds, what steady makes of each",
    trials,
    claims,
    draw,
    ("workload", "value", "target", "way", "phi", "phi99", "latency_ms", "times_constant", "times_schedule", "slack_ms",
     "true", "reported", "inside", "late", "rejected"),
    size=(13.0, 7.0),
    pictures=pictures,
    completed=completed,
)  # fmt: skip

"""Steady on joins, tuple by tuple and in epochs, on made and recorded streams, beside the best constant and the model.

Invariant: a controller is held against a constant and a model that emit results the same way. Epochs put what
arrives together in order for free and make results wait for their end; both are no merit of a controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, pick
from papers.experiments.figures import NAMES, evenly, finish, line, logarithmic
from papers.experiments.join_baselines import SETS
from papers.experiments.join_targets import recall_trial
from papers.experiments.recorded_streams import RECORDINGS
from papers.experiments.stages import Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial

TARGETS = (0.9, 0.95, 0.99)
EPOCHS_MS = (0, 500, 1000)
WAYS = ("steady", "model", CLAIRVOYANT)
PERIODS_S = {"binance": 10}
"""Where it is not a minute: that recording is five minutes long."""
EPOCH = "epoch (ms)"
TIMES, MORE_MS = 1.5, 20
"""What may be waited beyond the best constant: half of it, or two granularities."""
LINES = {0: "-", 500: "--", 1000: ":"}


def trials(scale: Scale) -> list[Trial]:
    """Every set under every release; a recording is what it is, whatever the seed and the minutes.

    A quick run leaves out the epochs between the shortest and the longest, and the lowest target.
    """
    found = []
    targets = TARGETS[1:] if scale.quick else TARGETS
    for epoch_ms in (EPOCHS_MS[0], EPOCHS_MS[-1]) if scale.quick else EPOCHS_MS:
        made = [Stage(name, seed, scale.minutes, epoch_ms=epoch_ms) for name in SETS for seed in scale.seeds]
        recorded = [Stage(name, scale.seed, epoch_ms=epoch_ms) for name in RECORDINGS]
        for stage in (*made, *recorded):
            for way in WAYS:
                found += [
                    replace(_trial(stage, way, target), parameter=EPOCH, value=float(epoch_ms)) for target in targets
                ]
    return found


def _trial(stage: Stage, way: str, target: float) -> Trial:
    return recall_trial(stage, way, target, PERIODS_S.get(stage.workload, 60))


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What the controller of our own is held to, release by release."""
    tried = [epoch_ms for epoch_ms in EPOCHS_MS if any(row["value"] == epoch_ms for row in rows)]
    return [claim for epoch_ms in tried for claim in _of_release(pick(rows, value=epoch_ms), epoch_ms)]


def _of_release(rows: Sequence[Row], epoch_ms: int) -> Iterator[Claim]:
    name = f"epochs of {epoch_ms} ms" if epoch_ms else "tuple release"
    mine = [row for row in pick(rows, way="steady") if "phi" in row]
    yield _worst(f"{name}: steady has Φ(.99Γ) of 97 % or more", [(row["phi99"], row) for row in mine], 0.97)
    yield _worst(f"{name}: steady has Φ(Γ) of 90 % or more", [(row["phi"], row) for row in mine], 0.9)
    best = {_case(row): row["latency_ms"] for row in pick(rows, way=CLAIRVOYANT)}
    model = {_case(row): row["latency_ms"] for row in pick(rows, way="model")}
    allowed = {case: max(TIMES * latency, latency + MORE_MS) for case, latency in best.items()}
    yield _within(f"{name}: steady waits at most max(1.5 times, + 20 ms) of the best constant", mine, allowed)
    yield _within(f"{name}: steady never waits longer than the model", mine, model)


def _case(row: Row) -> tuple[str, int, float]:
    return row["workload"], row["seed"], row["target"]


def _within(says: str, rows: Sequence[Row], bounds: dict[tuple[str, int, float], float]) -> Claim:
    shares = [(row["latency_ms"] / max(bounds[_case(row)], 1e-9), row) for row in rows if _case(row) in bounds]
    return _worst(says, shares, 1.0, most=True)


def _worst(says: str, numbers: Sequence[tuple[float, Row]], bound: float, most: bool = False) -> Claim:
    """A claim about every case, with the worst one named."""
    if not numbers:
        return Claim(says, "not offered", None)
    worst, row = (max if most else min)(numbers, key=lambda one: one[0])
    where = f"{NAMES[row['workload']]}, Γ = {row['target']:g}"
    held = sum((number <= bound) if most else (number >= bound) for number, _ in numbers)
    reported = f"{worst:.2f} of the bound" if most else f"at least {worst:.3f}"
    return Claim(says, f"{reported} ({where}); {held} of {len(numbers)} cases", held == len(numbers))


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Latency above, fulfilment below; a column a set, a kind of line a release."""
    sets = [name for name in (*SETS, *RECORDINGS) if pick(rows, workload=name)]
    grid = figure.subplots(2, len(sets), squeeze=False)
    for column, name in enumerate(sets):
        # Evenly spaced, as in the figure of the papers.
        mine = [row | {"place": TARGETS.index(row["target"])} for row in pick(rows, workload=name)]
        for number, (key, label) in enumerate((("latency_ms", "average latency (ms, log)"), ("phi", "Φ(Γ)"))):
            axes = grid[number][column]
            for epoch_ms, style in LINES.items():
                for way in WAYS:
                    reported = f"{way}, {f'{epoch_ms} ms' if epoch_ms else 'tuple'}"
                    line(axes, pick(mine, value=epoch_ms), "place", key, way, reported, linestyle=style)
            if key == "latency_ms":
                logarithmic(axes)
            else:
                axes.set_ylim(0, 1.05)
            evenly(axes, range(len(TARGETS)), lambda place: f"{TARGETS[int(place)]:g}")
            finish(axes, NAMES[name] if number == 0 else "", "recall target Γ", label, legend=column == 0 == number)


STEADY_JOINS = Experiment(
    "steady-joins",
    "Recall targets on joins, tuple by tuple and in epochs, over made and recorded streams",
    trials,
    claims,
    draw,
    ("workload", "value", "target", "way", "latency_ms", "slack_ms", "phi", "phi99", "recall_min"),
    size=(17.0, 7.5),
)

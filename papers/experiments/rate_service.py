"""Where the time of an event goes in a join with rate-sized windows, and what part of it the algorithm takes.

Waiting is event time: events arrive when they happen, one of D or R waits in its window until the one it matches has
come, and that one until its turn is known to have come. What the algorithm takes is measured on the clock.

References: 001 §4.2, Table 2, Fig. 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, extreme, over_seeds, pick
from papers.experiments.figures import finish
from papers.experiments.rate_overhead import Overhead, measure
from papers.experiments.rate_runs import EVERYTHING, RateTrial
from papers.experiments.rate_windows import ROUNDS, SLIDING, STYLES
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from slackwater.core.batch import Batch, Words
from slackwater.core.time import SECOND
from slackwater.operators.join.rate_windows import ROUNDS as ONE_SLICE
from slackwater.operators.join.rate_windows import SLIDING as SLICES
from slackwater.operators.pipeline import Epochs
from slackwater.plan.planner import plan
from slackwater.runtime.driver import Driver, with_results
from slackwater.runtime.kernels import kernel_for
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay

MATCHES = "SELECT d.ts AS d_at, r.ts AS r_at FROM d [RATE 10 SECONDS], r [RATE 10 SECONDS] MATCH TIME"
"""As in the paper's Fig. 4, up to the selection of equal IDs, which comes after the match."""
INTERVALS = (10 * SECOND, 10 * SECOND)
MOST_US, LEAST_SHARE, MOST_SHARE = 1.0, 0.00007, 0.026
SETTLED_S = 60.0


@dataclass(frozen=True)
class Served:
    """Results, times in microseconds since the first event."""

    d: Words
    r: Words
    out: Words
    """When each was emitted."""
    seconds_per_tuple: float
    overhead: Overhead


@dataclass(frozen=True)
class ServiceTrial(RateTrial):
    """D and R, every result with its times."""

    def measured(self) -> Row:
        served = self.served()
        first, newest = np.minimum(served.d, served.r), np.maximum(served.d, served.r)
        steady = newest >= SETTLED_S * SECOND
        in_window, in_input = ((newest - first)[steady] / 1000, (served.out - newest)[steady] / 1000)
        work = 1000 * served.seconds_per_tuple
        service = float(in_window.mean() + in_input.mean()) + work
        cost = served.overhead
        return self.head() | {
            "results": len(served.d),
            "input_ms": float(in_input.mean()),
            "sampling_us": cost.sampling,
            "algorithm_us": cost.algorithm,
            "evaluation_us": cost.evaluation,
            "resizing_us": cost.resizing,
            "overhead_us": cost.per_tuple,
            "window_ms": float(in_window.mean()),
            "work_us": 1000 * work,
            "service_ms": service,
            "share": cost.per_tuple / 1000 / service,
            "share_of_work": cost.per_tuple / (1000 * work),
            "d_waits_over_time": _by_second(served.d, served.out - served.d),
            "input_over_time": _by_second(newest, served.out - newest),
        }

    def served(self) -> Served:
        """Run the query, one arrival at a time as far as it can tell."""
        streams = {name: self.streams().streams[name] for name in ("d", "r")}
        text = f"{MATCHES} WITH COMPLETE" + (f" OPTIONS ({self.options})" if self.options else "")
        physical = plan(bind_to_tables(text, streams, "ts").query)
        arrivals = replay(physical, streams, "ms")
        batch = Batch.concat(list(arrivals.batches(EVERYTHING)))
        kernel = kernel_for(physical, Epochs(each_tuple=True), arrivals.codebook)
        made = list(with_results(Driver(kernel).epoch(batch)))
        columns = {column.name: column.source for column in physical.outputs}
        begun = int(batch.ts[0])

        def all_of(name: str) -> Words:
            source = columns[name]
            assert source is not None, "a column as it is"
            return np.concatenate([emission.columns[source] for emission in made]) - begun

        seen = replace(self, text=MATCHES).watched()
        slices = ONE_SLICE if self.options else SLICES
        cost = measure(batch, INTERVALS, slices)
        out = np.concatenate([emission.clock for emission in made]) - begun
        return Served(all_of("d_at"), all_of("r_at"), out, seen.cost_s / seen.tuples, cost)


def _by_second(at: Words, micros: Words) -> list[tuple[int, float]]:
    """The average of what happened in each second, in milliseconds."""
    seconds, place = np.unique(at // SECOND, return_inverse=True)
    means = np.bincount(place, micros) / np.bincount(place) / 1000
    return list(zip(seconds.tolist(), means.round(3).tolist(), strict=True))


def trials(scale: Scale) -> list[Trial]:
    """Both ways of sampling."""
    return [
        ServiceTrial(Stage("drm", seed), way, options=options)
        for seed in scale.seeds
        for way, options in ((SLIDING, ""), (ROUNDS, "sampling = 'rounds'"))
    ]


def breakdown_claims(rows: Sequence[Row]) -> list[Claim]:
    """The parts of Table 2."""
    shown = {row["way"]: row for row in over_seeds(rows)}
    found = []
    for way, row in shown.items():
        worst = extreme(pick(rows, way=way), "overhead_us", least=False) or 0.0
        parts = f"{row['sampling_us']:.3f} + {row['algorithm_us']:.3f} + {row['resizing_us']:.3f}"
        found.append(Claim(f"the algorithm takes under 1 us a tuple ({way}): sampling + deciding + resizing",
                           f"{parts} us, {worst:.3f} at most", worst < MOST_US))  # fmt: skip
        share = extreme(pick(rows, way=way), "share", least=False) or 0.0
        found.append(Claim(f"of the service time, .007 % to 2.6 % ({way})",
                           f"{share:.5%} of {row['service_ms']:.1f} ms", share <= MOST_SHARE))  # fmt: skip
        found.append(Claim(f"of the work on a tuple ({way})", f"{row['share_of_work']:.1%} of {row['work_us']:.2f} us",
                           None))  # fmt: skip
        found.append(Claim(f"most of the service time is waiting in the join window ({way}; 5.70 of 5.73 ms)",
                           f"{row['window_ms']:.1f} of {row['service_ms']:.1f} ms",
                           row["window_ms"] > 0.5 * row["service_ms"]))  # fmt: skip
    return found


def cycle_claims(rows: Sequence[Row]) -> list[Claim]:
    """D waits where R is slow."""
    fast, slow = _turns(pick(rows, way=SLIDING))
    says = "D waits for its results where R sends one event a second, and hardly where it keeps up"
    return [Claim(says, f"{slow:.0f} ms and {fast:.0f} ms", slow > 3 * fast)]


def _turns(rows: Sequence[Row]) -> tuple[float, float]:
    waits: tuple[list[float], list[float]] = ([], [])
    for row in rows:
        for second, wait in row["d_waits_over_time"]:
            # The first seconds of a turn are matched by the epsilon of the turn before.
            if second >= SETTLED_S and second % 10 >= 5:
                waits[second // 10 % 2].append(wait)
    return float(np.mean(waits[0])), float(np.mean(waits[1]))


def draw_breakdown(figure: Figure, rows: Sequence[Row]) -> None:
    """What a tuple costs, and where a result's time goes."""
    left, right = figure.subplots(1, 2)
    shown = over_seeds(rows)
    names = [row["way"] for row in shown]
    below = np.zeros(len(shown))
    for key, label in (("sampling_us", "sampling"), ("algorithm_us", "deciding"), ("resizing_us", "resizing")):
        values = np.array([1000 * row[key] for row in shown])
        left.bar(names, values, 0.5, bottom=below, label=label)
        below += values
    below = np.zeros(len(shown))
    for key, label in (("window_ms", "in the join window"), ("input_ms", "until its turn has come")):
        values = np.array([row[key] for row in shown])
        right.bar(names, values, 0.5, bottom=below, label=label)
        below += values
    finish(left, "the algorithm, per tuple", "", "ns", legend=True)
    finish(right, "waiting, per result", "", "ms", legend=True)


def draw_cycle(figure: Figure, rows: Sequence[Row]) -> None:
    """Waiting by second, from the first minute to the second."""
    panels = figure.subplots(2, 1, sharex=True)
    titles = {
        "input_over_time": "in the input, until its turn has come",
        "d_waits_over_time": "D, until its result is out",
    }
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        for way in (SLIDING, ROUNDS):
            points = [(s, wait) for s, wait in pick(rows, way=way)[0][key] if SETTLED_S <= s < 3 * SETTLED_S]
            axes.plot(*zip(*points, strict=True), label=way, **STYLES[way])
        for begin in range(70, 180, 20):
            axes.axvspan(begin, begin + 10, color="#888888", alpha=0.1)
        finish(axes, f"{title} (grey: R at 1/s)", "seconds", "ms", legend=True)


COLUMNS = ("way", "input_ms", "sampling_us", "algorithm_us", "resizing_us", "window_ms", "service_ms", "share")
BREAKDOWN = Experiment(
    "001-table2", "Service time of a result, and what of it the algorithm takes", trials, breakdown_claims,
    draw_breakdown, COLUMNS, size=(11.0, 4.5),
)  # fmt: skip
CYCLE = Experiment(
    "001-fig5", "Waiting of results for their turn, and of D until its results are out, by second", trials,
    cycle_claims, draw_cycle, COLUMNS, size=(10.0, 6.0),
)  # fmt: skip

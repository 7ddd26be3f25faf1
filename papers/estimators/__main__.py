"""The race: the least slack with which an estimator is within the bound in 95 % of the windows.

python -m papers.estimators [--error 0.03] [--minutes 12]
"""

from __future__ import annotations

import argparse

import numpy as np

from papers.estimators.closed import Race, errors
from papers.estimators.estimators import ESTIMATORS
from slackwater.workloads.disorder import ZOO, DisorderKind, zoo

SLACKS_MS = (0, *(round(25 * 2 ** (step / 2)) for step in range(24)))
LENGTH_MS, SETTLED_MS = 5000, 30_000
CONFIDENCE, FIRST = 0.95, 1 / 3


def least_slack(race: Race, name: str, bound: float) -> tuple[int | None, float]:
    """The least slack of those tried, and the median error without any."""
    medians = []
    for slack in SLACKS_MS:
        found = errors(race, ESTIMATORS[name](), slack)
        found = found[int(len(found) * FIRST) :]
        medians.append(float(np.median(found)))
        if (found <= bound).mean() >= CONFIDENCE:
            return slack, medians[0]
    return None, medians[0]


def main() -> None:
    """Race over every kind of disorder but wrong clocks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--error", type=float, default=0.03)
    parser.add_argument("--minutes", type=float, default=12)
    given = parser.parse_args()
    print(f"{'stream':24}" + "".join(f"{name + ': slack, error at 0':>28}" for name in ESTIMATORS))
    for member, kind in ZOO.items():
        if kind.kind is DisorderKind.WRONG_CLOCKS:
            # Which rows are rejected is for the engine to say.
            continue
        streams = zoo(member, minutes=given.minutes).streams
        race = Race.of(streams["a"], streams["b"], LENGTH_MS, SETTLED_MS)
        line = f"{member:24}"
        for name in ESTIMATORS:
            slack, median = least_slack(race, name, given.error)
            line += f"{'none' if slack is None else f'{slack:,} ms':>18} {median:9.4f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()

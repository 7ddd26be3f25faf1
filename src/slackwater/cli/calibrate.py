"""Measure what units of work cost on this machine, and keep it for the plans to come.

Invariant: the file is written when everything has been measured; a measurement that is broken off leaves the old one.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from slackwater.cli.paging import say
from slackwater.plan.placement.calibration import PlanToRun, calibrated, plans_to_run, run_plan
from slackwater.plan.placement.costs import CONSTANTS, Costs, costs_file, save_costs
from slackwater.plan.placement.fitting import errors_of

USUAL = (0.1, 0.9)
"""Between these quantiles lie eight in ten."""


@dataclass(frozen=True)
class MeasuredCosts:
    """Costs that were measured, and how well they predict what the measured plans took."""

    costs: Costs
    ratios: Sequence[float]
    """Estimated over measured seconds, for each plan that was run."""

    @property
    def usual(self) -> tuple[float, float]:
        """Between which ratios eight plans in ten lie."""
        low, high = np.quantile(self.ratios, USUAL)
        return float(low), float(high)


def calibrate_costs(console: Console) -> MeasuredCosts:
    """Run all plans; it takes about a minute."""
    n, done = len(list(plans_to_run())), 0
    with console.status("") as status:

        def run(plan: PlanToRun) -> float:
            nonlocal done
            done += 1
            status.update(f"plan {done} of {n} ...")
            return run_plan(plan)

        when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        costs, plans = calibrated(run, f"measured {when} on {platform.node() or 'this machine'}")
    return MeasuredCosts(costs, errors_of(plans, costs).tolist())


def keep(costs: Costs, path: Path | None) -> Path:
    """Write them where plans look for them, or to another file."""
    file = costs_file() if path is None else path
    save_costs(costs, file)
    return file


def as_json(found: MeasuredCosts, path: Path) -> dict[str, Any]:
    """Measured and shipped constants as data, in seconds."""
    shipped, costs = Costs(), found.costs
    return {
        "file": str(path),
        "measured": costs.measured,
        "costs": {name: {"shipped": getattr(shipped, name), "measured": getattr(costs, name)} for name in CONSTANTS},
        "plans": len(found.ratios),
        "estimated_over_measured": list(found.usual),
    }


def show(found: MeasuredCosts, path: Path, console: Console) -> None:
    """A table of all constants, in units that can be read."""
    shipped, costs = Costs(), found.costs
    table = Table("constant", box=None, pad_edge=False)
    for heading in ("shipped", "measured", "ratio"):
        table.add_column(heading, justify="right")
    for name in CONSTANTS:
        before, now = getattr(shipped, name), getattr(costs, name)
        table.add_row(name, readable(before), readable(now), f"{now / before:.2f}")
    console.print(table)
    low, high = found.usual
    say(
        f"{len(found.ratios)} plans were run; of eight in ten the estimate is {low:.2f} to {high:.2f} of what was"
        f" measured\n{costs.measured}; written to {path}",
        console,
    )


def readable(seconds: float) -> str:
    """Seconds in a unit that fits.

    >>> readable(3e-9), readable(4.24e-5), readable(0.0012)
    ('3 ns', '42.4 µs', '1.2 ms')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"

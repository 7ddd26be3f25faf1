"""Measure what units of work cost on this machine, and keep it for the plans to come.

Invariant: the file is written when everything has been measured; a measurement that is broken off leaves the old one.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from slackwater.plan.placement.costs import CONSTANTS, Costs, costs_file, save_costs

Measure = Callable[[], dict[str, float]]


def calibrate_costs(console: Console) -> Costs:
    """Measure all constants; it takes about a minute."""
    from slackwater.experiments.hybrid_column_costs import measure_columns
    from slackwater.experiments.hybrid_row_costs import measure_rows

    measures: dict[str, Measure] = {"compiled kernels": measure_rows, "the database": measure_columns}
    found: dict[str, float] = {}
    with console.status("") as status:
        for what, measure in measures.items():
            status.update(f"measuring {what} ...")
            found |= measure()
    missing = set(CONSTANTS) - set(found)
    assert not missing, f"not measured: {missing}"
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    constants: dict[str, Any] = found
    return Costs(**constants, measured=f"measured {when} on {platform.node() or 'this machine'}")


def keep(costs: Costs, path: Path | None) -> Path:
    """Write them where plans look for them, or to another place."""
    place = costs_file() if path is None else path
    save_costs(costs, place)
    return place


def as_json(costs: Costs, path: Path) -> dict[str, Any]:
    """Measured and shipped constants as data, in seconds."""
    shipped = Costs()
    return {
        "file": str(path),
        "measured": costs.measured,
        "costs": {name: {"shipped": getattr(shipped, name), "measured": getattr(costs, name)} for name in CONSTANTS},
    }


def show(costs: Costs, path: Path, console: Console) -> None:
    """A table of all constants, in units that can be read."""
    shipped = Costs()
    table = Table("constant", box=None, pad_edge=False)
    for heading in ("shipped", "measured", "ratio"):
        table.add_column(heading, justify="right")
    for name in CONSTANTS:
        before, now = getattr(shipped, name), getattr(costs, name)
        table.add_row(name, readable(before), readable(now), f"{now / before:.2f}" if before else "")
    console.print(table)
    console.print(f"{costs.measured}; written to {path}", markup=False, soft_wrap=True, highlight=False)


def readable(seconds: float) -> str:
    """Seconds in a unit that fits.

    >>> readable(3e-9), readable(4.24e-5), readable(0.0012)
    ('3 ns', '42.4 µs', '1.2 ms')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"

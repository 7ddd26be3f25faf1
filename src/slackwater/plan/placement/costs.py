"""What units of work cost on this machine: shipped defaults, or what `slackwater calibrate` has measured.

All costs are seconds: of a statement, an instant, a tuple, a row, or a value of a row. A measured file is kept in the
user's cache folder, under a version; a file of another version, or one that cannot be read, is refused with a sentence.

Invariant: costs change which plan is chosen, and never a result.

References: 004 §6.3.2, unit processing costs.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from slackwater.core.errors import UsageError
from slackwater.core.files import write_whole

VERSION = 2
FILE = "SLACKWATER_COSTS"
"""The environment variable that names the file of measured costs."""
SHIPPED = "shipped with slackwater"


@dataclass(frozen=True)
class Costs:
    """Seconds for each unit of work. `row_` is of the compiled kernels, `column_` of the database."""

    row_judge: float = 6.4e-08
    """A condition or expression, once a tuple, as it arrives."""
    row_add: float = 8.8e-08
    """A tuple into a pane, for each aggregate."""
    row_key: float = 1.6e-08
    """A tuple into a pane, for each key but the first."""
    row_rank: float = 1.1e-07
    """A tuple into the values of its group and out of them, for each median and quantile."""
    row_distinct: float = 2.2e-07
    """The same for each COUNT(DISTINCT ...)."""
    row_group: float = 1.3e-07
    """A group at an instant, for each aggregate: panes come and go, and its row is written."""
    row_instant: float = 0.00012
    """An operator that is computed at an instant, however small."""
    row_scan: float = 4.1e-10
    """A row through a condition or expression at an instant."""
    row_total: float = 1.4e-10
    """A row added to its group at an instant, for each aggregate."""
    row_hash: float = 9.5e-09
    """A row whose group is looked up at an instant, for each key."""
    row_rank_rows: float = 1.8e-07
    """A row into the values of its group at an instant, for each median and quantile."""
    row_distinct_rows: float = 2.2e-07
    """The same for each COUNT(DISTINCT ...)."""
    row_build: float = 3.4e-08
    """A row of a join's smaller side at an instant."""
    row_probe: float = 3.3e-09
    """A row of a join's larger side at an instant."""
    row_pair: float = 3.2e-09
    """A pair that a join looks at."""
    row_made: float = 8.9e-09
    """A row that a join makes of a pair."""
    column_statement: float = 4.5e-05
    """A statement, however small."""
    column_input: float = 0.0021
    """A table that is brought up to date for a statement, however little is new."""
    column_value_in: float = 3.3e-09
    """A value that goes over to the database, and leaves it in the end."""
    column_value_out: float = 7.4e-09
    """A value of a result that comes back."""
    column_scan: float = 7.3e-09
    """A row through a condition or expression."""
    column_hash: float = 7.2e-09
    """A row into its group, for each aggregate, and each key but the first."""
    column_rank: float = 4.1e-08
    """A row into its group, for each median and quantile."""
    column_distinct: float = 4.6e-08
    """The same for each COUNT(DISTINCT ...)."""
    column_group: float = 3.6e-07
    """A group, for each aggregate."""
    column_build: float = 1e-07
    """A row of a join's smaller side, for each key."""
    column_probe: float = 1.3e-08
    """A row of a join's larger side, for each key."""
    column_pair: float = 5.5e-10
    """A pair of rows with equal keys."""
    measured: str = SHIPPED
    """When and where they were measured."""

    def __post_init__(self) -> None:
        for name in CONSTANTS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise ValueError(f"{name} is {value!r}; a cost is a number of seconds")


CONSTANTS = tuple(one.name for one in fields(Costs) if one.name != "measured")


def costs_file() -> Path:
    """Where measured costs are kept.

    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, {FILE: "/there/costs.json"}):
    ...     print(costs_file())
    /there/costs.json
    """
    named = os.environ.get(FILE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slackwater" / "costs.json"


def save_costs(costs: Costs, path: Path) -> None:
    """Write costs for plans to come. A reader sees the old file or the new one, never a part."""
    write_whole(path, (json.dumps({"version": VERSION, **asdict(costs)}, indent=1) + "\n").encode())


def load_costs(path: Path | None = None) -> Costs:
    """The costs of this machine: those that were measured, or else those that are shipped."""
    place = costs_file() if path is None else path
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Costs()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(place, "it cannot be read") from error
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _unusable(place, "it is not JSON") from error
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise _unusable(place, "it is of another version")
    found.pop("version")
    if set(found) != {*CONSTANTS, "measured"} or not isinstance(found["measured"], str):
        raise _unusable(place, "it does not have the costs that are needed")
    try:
        return Costs(**found)
    except ValueError as error:
        raise _unusable(place, str(error)) from error


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(f"the costs in {path} cannot be used: {why}; run `slackwater calibrate`, or delete the file")

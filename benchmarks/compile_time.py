"""From query text to the last row in a new process: `python -m benchmarks.compile_time [NAME ...]`.

Invariant: exit code 0 iff every case that was asked about meets the target. Machine code of the kernels is on disk, for
a run that is not counted goes first; code for the query's own expressions is made in every process anew. Seconds are
those of the process on its core, so that others on the machine do not count; what passed on the clock stands beside.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from random import Random

from rich.console import Console
from rich.table import Table

TARGET = 2.0
RUNS = 2
ROWS = 1000
COLUMNS = 300
FORMS = (
    "v * {} + {}", "v - {} * {}", "x * {} + {}", "x / {} - {}", "(v + {}) % {}", "CASE WHEN v > {} THEN {} ELSE k END",
    "abs(v - {}) + {}", "least(v, {}) + {}", "x * x + {} * {}", "coalesce(v, {}) - {}",
)  # fmt: skip


def computed(forms: int) -> str:
    """Hundreds of computed columns of a few forms."""
    items = (FORMS[n % forms].format(n + 2, n + 7) + f" AS c{n}" for n in range(COLUMNS))
    return f"SELECT {', '.join(items)} FROM s WITH COMPLETE"


def different() -> str:
    """Hundreds of computed columns, hardly two of them of one form."""
    random = Random(0)

    def term(depth: int) -> str:
        if depth == 0:
            return random.choice(["v", "k", "x", str(random.randint(1, 99))])
        form = random.choice(["({} + {})", "({} - {})", "({} * {})", "({} / {})", "least({}, {})", "abs({} - {})"])
        return form.format(term(depth - 1), term(depth - 1))

    return f"SELECT {', '.join(f'{term(3)} AS c{n}' for n in range(COLUMNS))} FROM s WITH COMPLETE"


def listed(column: str, quote: str = "") -> str:
    """A filter with a list of a thousand values."""
    values = ", ".join(f"{quote}{3 * n}{quote}" for n in range(1000))
    return f"SELECT k FROM s WHERE {column} IN ({values}) WITH COMPLETE"


def joined() -> str:
    """A condition of a join with such a list."""
    values = ", ".join(str(3 * n) for n in range(1000))
    return f"SELECT s.k FROM s [RANGE 1 SECOND], r [RANGE 1 SECOND] WHERE s.v + r.v IN ({values}) WITH COMPLETE"


CASES = {
    "plain": "SELECT k, v FROM s WITH COMPLETE",
    "list of numbers": listed("v"),
    "list of texts": listed("name", "'"),
    "list in a join": joined(),
    "columns of one shape": computed(1),
    "columns of 10 shapes": computed(len(FORMS)),
    "columns all different": different(),
}


def run(name: str) -> None:
    """Import, make a small stream, and answer the query."""
    import numpy as np
    import pyarrow as pa

    import slackwater

    n = np.arange(ROWS)
    columns = {"ts": n, "arrival": n, "k": n % 50, "v": n, "x": n / 3, "name": n.astype(str)}
    stream = pa.table({column: pa.array(values) for column, values in columns.items()})
    streams = {"s": stream, "r": stream} if name == "list in a join" else {"s": stream}
    assert slackwater.replay(CASES[name], streams).results.num_columns > 0
    print(time.process_time())


def measured(name: str) -> tuple[float, float]:
    """Seconds of the process, and seconds on the clock."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.compile_time", "--inside", name]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(said), time.perf_counter() - begin


def main() -> int:
    """Run each case in processes of its own, print, and say whether all met the target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_time", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(CASES)}")
    parser.add_argument("--inside", metavar="NAME", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        run(asked.inside)
        return 0
    if unknown := set(asked.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    table = Table("case", "CPU s", "on the clock", "target", "")
    met = True
    for name in asked.names or CASES:
        measured(name)
        seconds, clock = map(min, zip(*(measured(name) for _ in range(RUNS)), strict=True))
        met &= seconds <= TARGET
        table.add_row(name, f"{seconds:.2f}", f"{clock:.2f}", f"{TARGET:.1f}", "met" if seconds <= TARGET else "missed")
    Console().print(table)
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())

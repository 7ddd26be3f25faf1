"""How large each package may be: `python -m tests.house` fails where one has grown past its budget.

Whoever needs more lines raises the number in the same commit, and says why there. Whoever removes lines lowers it.
"""

from __future__ import annotations

import sys
from pathlib import Path

WHEEL = Path(__file__).parent.parent / "src" / "slackwater"

BUDGETS = {
    "advice": 2_100,  # what each emission would wait and keep
    "cli": 3_000,
    # files written whole, for everybody who writes one; when results leave; targets of estimates; closures kept on disk
    "core": 3_020,
    "disorder": 5_550,  # tuples that pass at once; odd clocks; watermarks that move without a tuple are told
    "expressions": 4_150,  # all that is said of aggregates, and what chooses among values; what code is made of
    "figures": 350,
    # Outer joins of many streams, sessions, as-of joins; windows from conditions; what Spark and Flink write, windows
    # of rows with it, also of those that slide, and groups of windows below; EMIT; first rows; versions; what Spark
    # computes.
    "language": 8_400,
    "observe": 2_820,  # corrections, and the quality with them; odd clocks, and what helps
    # Outer joins and what they lose; aggregates and DISTINCT that change what has left; sessions; as-of joins,
    # what they lose and correct.
    # Checkpoints of arrays in blocks; first rows; true rows of queries in two steps, and their extremes; a sketch.
    # A history teaches nothing and counts for no target.
    "operators": 20_550,
    "page": 800,
    "plan": 7_350,  # first rows; as-of joins; EXPLAIN tells when results leave
    "published": 3_700,  # the statistics of delays that only published controllers use; Filter-Order in epochs
    "quality": 6_470,  # ledgers that keep tuples, which came from operators; estimates; rows that turn out false
    # Tables that are kept up to date; a history before the streams: cut, kept, read and known again.
    "runtime": 17_550,
    "sinks": 250,
    "sources": 2_100,  # static relations, and those that are read anew
    "testing": 250,
    # Outer joins, also among other operators.
    "verify": 4_050,  # sessions, as-of joins; answers after corrections, rows of open windows
    "workloads": 1_150,  # kinds of disorder have names of their own
    "": 150,
}
"""Lines of Python by package; the empty name is what lies beside the packages."""


def lines_by_package(wheel: Path) -> dict[str, int]:
    """The lines of Python that each package of the wheel has."""
    lines: dict[str, int] = {}
    for file in wheel.rglob("*.py"):
        parts = file.relative_to(wheel).parts
        package = parts[0] if len(parts) > 1 else ""
        lines[package] = lines.get(package, 0) + len(file.read_text(encoding="utf-8").splitlines())
    return lines


def over_budget(lines: dict[str, int], budgets: dict[str, int]) -> list[str]:
    """One sentence for each package that is larger than its budget, or has none."""
    sentences = []
    for package, count in sorted(lines.items()):
        name = package or "slackwater/*.py"
        if package not in budgets:
            sentences.append(f"{name}: {count:,} lines and no budget; give it one in tests/house.py.")
        elif count > budgets[package]:
            sentences.append(f"{name}: {count:,} lines, {budgets[package]:,} budgeted; merge, or raise it and say why.")
    return sentences


def main() -> int:
    """Print what is over its budget, and the size of the wheel."""
    lines = lines_by_package(WHEEL)
    sentences = over_budget(lines, BUDGETS)
    for sentence in sentences:
        print(sentence)
    print(f"{sum(lines.values()):,} lines of Python in the wheel, {len(list(WHEEL.rglob('*.py')))} modules.")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a newcomer does first, on every line of PySpark that is served: `make test-matrix`.

Each line has an environment of its own in `.venv-matrix`, with its newest PySpark and the newest pandas; all else is as
in `constraints.txt`, so all of them share the machine code of the tree.

Invariant: a feature counts as served only where it ran and its check held. It may be refused only where the version
lacks what it needs, and then in one sentence; anything else ends this with an error. What could not be fetched is
called not tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-matrix"
VERSIONS = ("3.5", "4.0", "4.1", "4.2", "4.3")
NEEDS = {'format("slackwater")': (4, 0), "the same, maxFilesPerTrigger": (4, 2)}
"""Features that older versions refuse."""
FREE = ("pyspark", "py4j", "pandas")
"""What the version decides, or PySpark itself should live with."""
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LONGEST = 1800.0
"""Seconds that a version has for everything; the first one may compile the kernels."""


def environment(version: str) -> Path:
    """The Python of an environment with this line of PySpark, made where it is missing or out of date."""
    folder = ENVIRONMENTS / version
    python, stamp = folder / "bin" / "python", folder / ".ready"
    pinned = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.split("==")[0] not in FREE]
    asked = [f"pyspark=={version}.*", "-e", f"{ROOT}[connect]"]
    if version == "3.5" and sys.version_info >= (3, 12):
        asked.append("setuptools")
    made_of = hashlib.sha256("\n".join([(ROOT / "pyproject.toml").read_text(), *pinned, *asked]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == made_of:
        return python
    run([sys.executable, "-m", "venv", "--clear", str(folder)])
    (folder / "constraints.txt").write_text("\n".join(pinned) + "\n")
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run([*pip, "-c", str(folder / "constraints.txt"), *asked])
    stamp.write_text(made_of)
    return python


def run(command: list[str]) -> None:
    """Run a command; what it says is shown only where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def tried(version: str, python: Path) -> list[dict[str, Any]]:
    """What became of every feature."""
    program = Path(__file__).with_name("newcomer.py")
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    with tempfile.TemporaryDirectory(prefix="slackwater-matrix-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        with log.open("w") as errors:
            done = subprocess.run(
                [str(python), str(program), folder], stdout=subprocess.PIPE, stderr=errors, text=True, check=False,
                timeout=LONGEST, env={"SPARK_SUBMIT_OPTS": JVM, "PYSPARK_PYTHON": str(python)} | outside,
            )  # fmt: skip
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        wrong = [one for one in found if not is_right(version, one)]
        if done.returncode or wrong or not found:
            sys.stderr.write(f"--- PySpark {version}\n{log.read_text()[-6000:]}\n")
        if done.returncode:
            found.append({"feature": "the whole program", "outcome": "fails", "said": "see above", "seconds": 0.0})
    return found


def is_right(version: str, one: dict[str, Any]) -> bool:
    """Whether what became of a feature is what its version promises."""
    lacks = tuple(map(int, version.split("."))) < NEEDS.get(one["feature"], (0, 0))
    return one["outcome"] in ("refused" if lacks else "runs", "not tried") and "\n" not in one["said"]


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Versions beside features; below them what was said where one does not run."""
    features = list(dict.fromkeys(one["feature"] for mine in found.values() for one in mine))
    said: list[str] = []
    lines = []
    for feature in features:
        cells = []
        for mine in found.values():
            one = next((one for one in mine if one["feature"] == feature), None)
            cell = "-" if one is None else f"runs, {one['seconds']:.0f} s"
            if one is not None and one["outcome"] != "runs":
                if one["said"] not in said:
                    said.append(one["said"])
                cell = f"{one['outcome']} [{said.index(one['said']) + 1}]"
            cells.append(cell)
        lines.append([feature, *cells])
    rows = [["", *found], *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*text, "", *(f"[{number}] {sentence}" for number, sentence in enumerate(said, 1))])


def main(wanted: list[str]) -> int:
    """Try the versions that are named, or all."""
    begun = time.monotonic()
    found: dict[str, list[dict[str, Any]]] = {}
    # While one is tried, the next one is installed.
    with ThreadPoolExecutor(1) as installing:
        ready: dict[str, Future[Path]] = {name: installing.submit(environment, name) for name in wanted or VERSIONS}
        for version, python in ready.items():
            found[version] = tried(version, python.result())
            sys.stderr.write(f"PySpark {version} is done, after {time.monotonic() - begun:.0f} s\n")
    print(table(found))
    return int(not all(is_right(version, one) for version, mine in found.items() for one in mine))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

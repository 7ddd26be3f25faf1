"""The two trees of a comparison: this one, and the base, each a process that runs what it is asked to.

The base is the last tag; while there is none, the commit that the file BASE names. It is a git worktree in the folder
for temporary files, and stays there with its machine code for the next time. Both trees run in one environment: only
PYTHONPATH differs, and nothing is installed.

Invariant: a process imports the tree it was started for, or the comparison ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TREE = HERE.parent


class NoBaseError(Exception):
    """There is nothing to compare with, and why."""


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(TREE), *words], capture_output=True, text=True)
    except OSError as error:
        raise NoBaseError(f"git: {error.strerror}") from None
    if done.returncode:
        raise NoBaseError(f"git {' '.join(words[:2])}: {done.stderr.strip()}")
    return done.stdout.strip()


def base_name() -> str:
    """The last tag, or the commit named in BASE."""
    try:
        return _git("describe", "--tags", "--abbrev=0")
    except NoBaseError:
        return (HERE / "BASE").read_text(encoding="utf-8").strip()


def base_tree(name: str) -> Path:
    """A worktree of that commit; the one that is there already, if it is."""
    commit = _git("rev-parse", "--verify", f"{name}^{{commit}}")
    tree = Path(tempfile.gettempdir()) / f"slackwater-base-{commit[:12]}"
    if not (tree / "src").is_dir():
        _git("worktree", "prune")
        _git("worktree", "add", "--force", "--detach", str(tree), commit)
    return tree


SAME_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
"""Both sides keep the memory that they free. By default glibc learns from the largest block freed so far which blocks
go back to the system at once: the same join took 0 page faults a run in one tree and 3,300 in the other, 6 % of its
time, for what had been imported before."""


class Side:
    """A process that runs kernels of one tree."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        paths = os.pathsep.join((str(tree / "src"), str(tree)))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # -P: the folder of the script is of this tree, whatever tree the process is of.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "side.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | SAME_MEMORY | {"PYTHONPATH": paths},
            cwd=tree,
        )
        origin = self.ask("origin")
        if not Path(origin).is_relative_to(tree):
            raise SystemExit(f"benchmarks: {tree} was to be measured, and {origin} was imported")

    def ask(self, line: str) -> Any:
        """What the process answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"benchmarks: in {self._tree} '{line}' failed; its error stands above")
        return json.loads(answer)

    def open(self, name: str, tuples: int) -> dict[str, int]:
        """Make the input of a kernel; how many results there are, and pairs."""
        return dict(self.ask(f"open {tuples} {name}"))

    def run(self) -> float:
        """CPU seconds of one run of what was opened last."""
        return float(self.ask("run"))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

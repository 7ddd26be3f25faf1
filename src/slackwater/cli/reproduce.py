"""`slackwater reproduce`: the experiments are a package of their own, which is found where it is installed.

They stay out of the wheel: published datasets and baselines serve those who work on the repository. The package names
its function by an entry point, so that nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from slackwater.core.errors import UsageError

GROUP = "slackwater.commands"
Reproduce = Callable[[str | None, bool, bool, Path | None, int, bool], None]
"""ID, --list, --quick, --out, --seed, --json."""


def installed() -> Reproduce:
    """The command, where the experiments are installed."""
    for entry in entry_points(group=GROUP, name="reproduce"):
        command: Reproduce = entry.load()
        return command
    raise UsageError(
        "`slackwater reproduce` needs the experiments in papers/ of the repository, which are not installed here: clone"
        " the repository and run `make setup` in it"
    )

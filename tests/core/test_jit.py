"""Machine code is made anew when a file that it came from changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from slackwater.core import closures, jit


def package(folder: Path, helper: str) -> Path:
    """A package whose loops call a helper of its own and one of the product."""
    (folder / "other" / "inside").mkdir(parents=True)
    for place in ("__init__.py", "inside/__init__.py"):
        (folder / "other" / place).write_text("")
    (folder / "other" / "helpers.py").write_text(helper)
    loops = folder / "other" / "inside" / "loops.py"
    loops.write_text(
        "import json\nfrom other.helpers import twice\nfrom slackwater.core.collections.heap import push\n"
    )
    return loops


def test_a_file_of_any_package_is_stamped_with_what_it_imports_of_its_own_package_and_of_this_one(
    tmp_path: Path,
) -> None:
    loops = package(tmp_path, "FACTOR = 2\n")
    found = {file.name for file in jit._imported(loops)}
    assert {"helpers.py", "heap.py"} <= found
    assert not {file for file in jit._imported(loops) if "json" in file.parts}


def test_the_stamp_of_a_file_changes_with_a_helper_of_its_own_package(tmp_path: Path) -> None:
    stamps = [jit._stamp(package(tmp_path / name, f"FACTOR = {name}\n")) for name in ("2", "3")]
    assert stamps[0] != stamps[1]


def added(folder: Path, module: str) -> str:
    """What a fresh process makes of a cached loop over a pair that is defined in this module."""
    (folder / f"{module}.py").write_text(
        "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
    )
    loop = "from slackwater.core.jit import compiled\n@compiled\ndef add(pair):\n    return pair.a + pair.b\n"
    (folder / "loop.py").write_text(loop)
    run = f"from {module} import Pair; from loop import add; print(add(Pair(1, 2)))"
    return subprocess.run([sys.executable, "-c", run], cwd=folder, text=True, capture_output=True).stdout


def test_machine_code_that_names_a_module_which_is_gone_is_made_anew(tmp_path: Path) -> None:
    assert added(tmp_path, "before") == "3\n"
    (tmp_path / "before.py").unlink()
    assert list(tmp_path.rglob("*.nbi"))
    assert added(tmp_path, "after") == "3\n"


def test_closures_are_kept_on_disk_by_what_they_are_made_of_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(closures, "KEPT", 2)

    def was_there(shift: int, made_of: str | None) -> bool:
        add: Any = closures.closure(lambda n: n + shift, made_of)
        assert add(1) == 1 + shift
        return bool(sum(add.stats.cache_hits.values()))

    assert [was_there(2, "2"), was_there(2, "2"), was_there(3, "3"), was_there(2, None)] == [False, True, False, False]
    assert not was_there(4, "4")
    assert not was_there(2, "2")

"""The budgets of packages: what is over one, or has none, is named."""

from __future__ import annotations

from pathlib import Path

from tests.house import lines_by_package, over_budget
from tests.unreached import functions_of, reason_for


def test_lines_are_counted_by_package_and_beside_them(tmp_path: Path) -> None:
    (tmp_path / "core" / "deep").mkdir(parents=True)
    (tmp_path / "core" / "a.py").write_text("1\n2\n")
    (tmp_path / "core" / "deep" / "b.py").write_text("3\n")
    (tmp_path / "__init__.py").write_text("4\n")
    assert lines_by_package(tmp_path) == {"core": 3, "": 1}


def test_only_what_is_over_its_budget_or_has_none_is_named() -> None:
    lines = {"core": 11, "plan": 10, "new": 1}
    core, new = over_budget(lines, {"core": 10, "plan": 10})
    assert core.startswith("core: 11 lines, 10 budgeted")
    assert new.startswith("new: 1 lines and no budget")


SOURCE = '''
class Store(Protocol):
    def load(self) -> int:
        """Nothing but a sentence."""
        ...

    def save(self) -> int:
        """A sentence, and work."""
        return 1

@compiled
def loop(x):
    return x

def outer():
    def inner():
        return 2
    return inner
'''


def test_functions_that_the_interpreter_runs_are_found_with_their_lines() -> None:
    save, outer = functions_of(SOURCE, "a/store.py")
    assert (save.address, save.body) == ("a/store.py:Store.save", {9})
    assert (outer.address, outer.body) == ("a/store.py:outer", {16, 18})


def test_a_reason_is_found_by_the_pattern_of_file_and_function() -> None:
    (save, outer) = functions_of(SOURCE, "a/store.py")
    assert reason_for(save, {"a/*:Store.*": "kept"}) == "kept"
    assert reason_for(outer, {"a/*:Store.*": "kept"}) is None

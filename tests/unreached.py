"""List the functions that no public call reaches: `make unreached`.

Public calls are what the README, the docs, the examples and the command line do, and queries of every form through
`slackwater.replay`, `start` and `advise`: their tests alone run here, under coverage, without those of a package's
insides. A function on the list has a reason in `REASONS`, or goes.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent
WHEEL = ROOT / "src" / "slackwater"
PUBLIC_CALLS = [
    "tests/test_readme.py", "tests/test_docs.py", "tests/test_examples.py", "tests/cli", "tests/ops/test_cli.py",
    "tests/advice", "tests/runtime", "tests/spark/test_queries.py", "tests/spark/test_query_sets_on_spark.py",
    "tests/spark/test_outputs.py", "tests/spark/test_parity.py", "tests/spark/test_packed_source.py",
    "tests/page/test_on_spark.py", "tests/ops/test_on_spark.py",
]  # fmt: skip

MACHINE_CODE = {"compiled", "in_place", "inner", "allocating"}
"""Decorators of functions that run as machine code, where coverage sees nothing."""

REASONS: dict[str, str] = {
    "*.__repr__": "people read it in a shell",
    "*:__dir__": "people complete names in a shell",
    "expressions/arithmetic.py:*": "machine code of expressions",
    "expressions/calendar.py:*": "machine code of expressions",
    "expressions/conversions.py:*": "machine code of expressions",
    "expressions/logic.py:*": "machine code of expressions",
    "runtime/spark/upsert/*": "tables need a PostgreSQL, a broker, or a build for the Spark that runs",
    "testing/*": "for tests of users",
}
"""Why a function may stay though nothing public reaches it: a pattern of `file:function`, and the reason."""


@dataclass(frozen=True)
class Function:
    """A function of the wheel and the lines of its body."""

    file: str
    name: str
    line: int
    body: frozenset[int]

    @property
    def address(self) -> str:
        """How the function is named in the list and in `REASONS`."""
        return f"{self.file}:{self.name}"


def functions_of(source: str, file: str) -> Iterator[Function]:
    """Every function of a file that the interpreter runs and that does something."""
    yield from _functions_in(ast.parse(source), file, ())


def _functions_in(node: ast.AST, file: str, outer: tuple[str, ...]) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            body = [statement for statement in child.body if not _does_nothing(statement)]
            if body and not _is_machine_code(child):
                lines = frozenset(statement.lineno for statement in body)
                yield Function(file, ".".join((*outer, child.name)), child.lineno, lines)
            continue
        inside = (*outer, child.name) if isinstance(child, ast.ClassDef) else outer
        yield from _functions_in(child, file, inside)


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether it is a docstring, `...` or the refusal of an abstract method."""
    if isinstance(statement, ast.Raise):
        return "NotImplementedError" in ast.unparse(statement)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_machine_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in function.decorator_list}
    return bool(names & (MACHINE_CODE | {"abstractmethod", "overload"}))


def unreached(executed: dict[str, set[int]]) -> list[Function]:
    """The functions of the wheel of which no line ran, by file and line."""
    found = []
    for path in sorted(WHEEL.rglob("*.py")):
        file = path.relative_to(WHEEL).as_posix()
        ran = executed.get(file, set())
        found += [one for one in functions_of(path.read_text(encoding="utf-8"), file) if not one.body & ran]
    return found


def reason_for(function: Function, reasons: dict[str, str]) -> str | None:
    """Why the function may stay, where a reason is written down."""
    return next((reason for pattern, reason in reasons.items() if fnmatch(function.address, pattern)), None)


def lines_run_by_public_calls(folder: Path) -> dict[str, set[int]]:
    """Run the public calls under coverage; the lines of the wheel that ran, by file."""
    settings = folder / "coverage.ini"
    settings.write_text(
        f"[run]\nsource_pkgs = slackwater\ndata_file = {folder / 'data'}\nparallel = true\nsigterm = true\n"
        "patch =\n    subprocess\n    fork\n    _exit\n"
    )
    # A worker of Spark that is used again is killed at the end, and what it ran is lost.
    (folder / "spark-defaults.conf").write_text("spark.python.worker.reuse false\n")
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "SPARK_CONF_DIR": str(folder)}
    coverage = [sys.executable, "-m", "coverage"]
    pytest = ["pytest", "-q", "-n", "2", "--dist", "loadgroup", *PUBLIC_CALLS]
    tests = [*coverage, "run", f"--rcfile={settings}", "-m", *pytest]
    subprocess.run(tests, cwd=ROOT, env=environment, check=False)
    subprocess.run([*coverage, "combine", "-q", f"--rcfile={settings}"], cwd=ROOT, check=True)
    from coverage import CoverageData

    data = CoverageData(basename=str(folder / "data"))
    data.read()
    wheel = f"{WHEEL}{os.sep}"
    return {
        Path(file).relative_to(WHEEL).as_posix(): set(data.lines(file) or ())
        for file in data.measured_files()
        if file.startswith(wheel)
    }


def main() -> int:
    """Print every function that nothing public reaches; fail where one has no reason."""
    with tempfile.TemporaryDirectory() as folder:
        functions = unreached(lines_run_by_public_calls(Path(folder)))
    bare = 0
    for function in functions:
        reason = reason_for(function, REASONS)
        bare += reason is None
        print(f"{function.file}:{function.line} {function.name}{f'  ({reason})' if reason else ''}")
    print(f"{len(functions)} functions that no public call reaches, {bare} of them without a reason.")
    return 1 if bare else 0


if __name__ == "__main__":
    sys.exit(main())

"""A sample of mutants of the kernels: `python -m tests.mutants --count 20 --seed 1 [--only operators/join] [TESTS]`.

Each mutant is the package with one thing changed in one compiled function: a comparison, a plus for a minus, a number
off by one, an `and` for an `or`. It is killed where a test fails, or never ends. Which mutants there are follows from
the seed and the source alone, so the same sample can be tried with two states of the tests.

Mutants run as machine code: kernels call compiled conditions by their address, which plain Python cannot. What a change
does not touch is taken from the cache that the run without any change has left. A change that nobody could see (of room
kept in reserve, of a hint) survives rightly.

Invariant: what else the machine does kills no mutant, so patience is counted in seconds of the processor.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "slackwater"
KERNELS = ("core/collections", "disorder", "operators", "quality", "windows")
DECORATORS = {"compiled", "in_place", "inner", "allocating"}
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult}
TESTS = (
    "tests/laws",
    "tests/disorder/test_release.py",
    "tests/operators/test_aggregate.py",
    "tests/operators/test_join.py",
)


@dataclass(frozen=True)
class Mutant:
    """The place of a change: a node of a file, by its number in a walk."""

    file: Path
    node: int
    line: int
    what: str


def mutants(only: list[str]) -> Iterator[Mutant]:
    """Every change that could be made in these files."""
    for package in KERNELS:
        for file in sorted((SOURCE / package).rglob("*.py")):
            if only and not any(part in str(file.relative_to(SOURCE)) for part in only):
                continue
            tree = ast.parse(file.read_text())
            inside = _compiled_nodes(tree)
            for number, node in enumerate(ast.walk(tree)):
                change = _changed(node) if id(node) in inside else None
                if change is not None:
                    yield Mutant(file.relative_to(SOURCE), number, node.lineno, change)  # type: ignore[attr-defined]


def _compiled_nodes(tree: ast.Module) -> set[int]:
    """Nodes in the bodies of compiled functions."""
    found = set()
    for function in ast.walk(tree):
        names = {one.id for one in getattr(function, "decorator_list", ()) if isinstance(one, ast.Name)}
        if isinstance(function, ast.FunctionDef) and names & DECORATORS:
            found |= {id(node) for statement in function.body for node in ast.walk(statement)}
    return found


def _changed(node: ast.AST, change: bool = False) -> str | None:
    """What a change of this node would be; with `change`, it is made."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        before, other = type(node.ops[0]), COMPARED[type(node.ops[0])]
        if change:
            node.ops[0] = other()
        return f"{before.__name__} -> {other.__name__}"
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in COMPUTED:
        before, other = type(node.op), COMPUTED[type(node.op)]
        if change:
            node.op = other()
        return f"{before.__name__} -> {other.__name__}"
    if isinstance(node, ast.BoolOp):
        before, other = type(node.op), ast.Or if isinstance(node.op, ast.And) else ast.And
        if change:
            node.op = other()
        return f"{before.__name__} -> {other.__name__}"
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value in (0, 1):
        value = node.value
        if change:
            node.value = value + 1
        return f"{value} -> {value + 1}"
    return None


def apply(mutant: Mutant, package: Path) -> None:
    """Change a copy of the package."""
    tree = ast.parse((SOURCE / mutant.file).read_text())
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node)
    assert _changed(node, change=True) == mutant.what
    (package / mutant.file).write_text(ast.unparse(tree) + "\n")


def survives(folder: Path, tests: list[str], patience: int) -> bool:
    """Whether all tests pass with the package in this folder, within so many seconds of the processor."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0", "-x", *tests]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (patience, patience))

    return subprocess.run(command, env=environment, capture_output=True, preexec_fn=limit, check=False).returncode == 0


def main() -> None:
    """Try a sample, and say which of them no test has noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="a part of the path of the files to change; may be given again")
    parser.add_argument(
        "--patience", type=int, default=300, help="seconds of the processor after which a mutant is taken for endless"
    )
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="what pytest is given")
    given, more = parser.parse_known_args()
    everything = list(mutants(given.only))
    chosen = random.Random(given.seed).sample(everything, min(given.count, len(everything)))
    print(f"{len(chosen)} of {len(everything)} mutants", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        unchanged, folder, tests = Path(name, "unchanged"), Path(name, "changed"), [*given.tests, *more]
        shutil.copytree(SOURCE, unchanged / "slackwater")
        assert survives(unchanged, tests, given.patience), "the tests fail without any change"
        killed = 0
        for mutant in chosen:
            # Anew each time: the machine code of a mutant takes the place of what was there.
            shutil.copytree(unchanged, folder)
            apply(mutant, folder / "slackwater")
            lives = survives(folder, tests, given.patience)
            shutil.rmtree(folder)
            killed += not lives
            print(f"{'SURVIVED' if lives else 'killed  '} {mutant.file}:{mutant.line}  {mutant.what}", flush=True)
    print(f"{killed} of {len(chosen)} killed")


if __name__ == "__main__":
    main()

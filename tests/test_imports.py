"""What a command does not need is not imported: each claim is tried in a fresh interpreter."""

import json
import subprocess
import sys

import pytest

_LOADED = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"


def packages_after(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after running some code."""
    command = [sys.executable, "-c", f"{code}\n{_LOADED}"]
    output = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    return set(json.loads(output.splitlines()[-1]))


def test_the_probe_sees_what_is_imported() -> None:
    assert {"slackwater", "numba"} <= packages_after("import slackwater.core.jit")


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not packages_after("import slackwater") & {"pyspark", "numba", "numpy", "pyarrow", "duckdb", "sqlglot"}


def test_help_never_imports_an_engine() -> None:
    code = """
import sys
from slackwater.cli.app import main
sys.argv = ["slackwater", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code
"""
    assert not packages_after(code) & {"pyspark", "numba", "pyarrow", "duckdb", "sqlglot"}


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("slackwater.language.bind", {"pyspark", "numba", "duckdb"}),
        ("slackwater.verify", {"pyspark", "numba", "sqlglot"}),
        ("slackwater.plan.planner", {"pyspark", "duckdb", "sqlglot"}),
        ("slackwater.runtime.local.run", {"pyspark", "duckdb", "sqlglot", "rich", "typer"}),
        ("slackwater.workloads", {"pyspark", "numba", "duckdb", "sqlglot"}),
    ],
)
def test_a_package_imports_only_the_libraries_it_needs(module: str, unused: set[str]) -> None:
    assert not packages_after(f"import {module}") & unused


def test_running_a_query_needs_neither_the_judge_nor_spark_nor_published_algorithms_nor_the_test_tools() -> None:
    code = """
import pyarrow as pa
import slackwater as sw
sw.replay("SELECT v FROM s WITH NO WAIT", {"s": pa.table({"ts": [1, 2], "v": [1, 2]})})
import sys
unused = ("slackwater.verify", "slackwater.testing", "slackwater.published")
assert not any(name.startswith(unused) for name in sys.modules)
"""
    assert not packages_after(code) & {"pyspark", "duckdb", "hypothesis", "pytest"}

"""The pages say what is: links lead somewhere, named files and tests exist, queries bind, options are all there."""

import re
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest
from typer.main import get_command

from slackwater.cli.app import app
from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.schema import Field, Kind, Schema
from slackwater.expressions.aggregates import BY_CALL
from slackwater.expressions.functions import function_names
from slackwater.expressions.user import USER_FUNCTIONS
from slackwater.language.bind import bind
from slackwater.sources.encode import REASONS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
SOURCE = ROOT / "src" / "slackwater"
_SQL = re.compile(r"(?P<mark><!-- refused -->\n)?^```sql\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"`((?:papers/)?tests/[\w/]+\.py)::(\w+)`")


def page(name: str) -> str:
    return (ROOT / name).read_text()


def schema(**columns: Kind) -> Schema:
    types = {Kind.TIME: pa.timestamp("us", "UTC"), Kind.INT: pa.int64(), Kind.FLOAT: pa.float64()}
    types |= {Kind.TEXT: pa.string(), Kind.BOOL: pa.bool_()}
    return Schema(tuple(Field(name, kind, types[kind]) for name, kind in columns.items()), "ts")


READINGS = schema(ts=Kind.TIME, key=Kind.INT, v=Kind.FLOAT, name=Kind.TEXT, ok=Kind.BOOL)
POSITIONS = schema(ts=Kind.TIME, id=Kind.INT, x=Kind.FLOAT, y=Kind.FLOAT)
STREAMS = {"a": READINGS, "b": READINGS, "s": READINGS, "positions": POSITIONS}
QUERIES = [(match["text"], bool(match["mark"])) for match in _SQL.finditer(page("docs/language.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize(("text", "refused"), QUERIES)
def test_a_documented_query_binds_or_is_refused_as_the_page_says(text: str, refused: bool) -> None:
    if refused:
        with pytest.raises(QueryError):
            bind(text, STREAMS)
    else:
        bind(text, STREAMS)


def test_the_page_on_the_language_shows_queries_of_both_sorts() -> None:
    assert {refused for _, refused in QUERIES} == {True, False}


def test_the_page_on_the_language_names_every_function_aggregate_and_option() -> None:
    words = {word.lower() for word in re.findall(r"\w+", page("docs/language.md"))}
    built_in = set(function_names()) - set(USER_FUNCTIONS)
    assert built_in | set(BY_CALL) | {field.name for field in fields(Options)} <= words


def test_the_reference_names_every_command_and_option() -> None:
    text = page("docs/reference.md")
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert f"`slackwater {name}" in text
        for option in (flag for parameter in command.params for flag in parameter.opts if flag.startswith("--")):
            assert re.search(rf"{option}\b(?!-)", text), f"{option} of {name}"


def test_the_reference_names_every_reason_to_reject_a_row() -> None:
    text = page("docs/reference.md")
    assert [reason for reason in REASONS if reason and f"`{reason}`" not in text] == []


def test_every_test_that_the_papers_page_names_exists() -> None:
    named = _TEST.findall(page("docs/papers.md"))
    assert len(named) > 10
    assert [test for test in named if f"def {test[1]}(" not in (ROOT / test[0]).read_text()] == []


def test_every_file_that_the_papers_page_names_exists() -> None:
    named = re.findall(r"`([a-z_/]+\.py)`", page("docs/papers.md"))
    assert len(named) > 15
    assert [file for file in named if not ((SOURCE / file).exists() or (ROOT / file).exists())] == []


def test_every_document_that_the_code_refers_to_by_number_is_on_the_papers_page() -> None:
    listed = set(re.findall(r"^\| (\d{3}) \|", page("docs/papers.md"), re.MULTILINE))
    cited: set[str] = set()
    for file in (*SOURCE.rglob("*.py"), *(ROOT / "papers").rglob("*.py")):
        cited |= set(re.findall(r"\b(00\d) (?:§|Alg\.|Eq\.|Theorem|Table|Example|Prop\.|Fig\.)", file.read_text()))
    assert cited
    assert cited <= listed


def test_the_architecture_names_every_package() -> None:
    text = page("ARCHITECTURE.md")
    packages = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert [package for package in packages if f"`{package}`" not in text] == []


def test_the_architecture_shows_the_layers_that_are_enforced() -> None:
    contract = page(".importlinter").split("layers =\n")[1].split("\n\n")[0]
    layers = "\n".join(line.strip() for line in contract.splitlines())
    assert f"```text\n{layers}\n```" in page("ARCHITECTURE.md")


def test_pages_ask_for_the_pyspark_that_the_package_needs() -> None:
    (needed,) = re.findall(r'"pyspark>=([\d.]+)"', page("pyproject.toml"))
    pages = [path for path in PAGES if path.name != "CHANGELOG.md"]
    stated = {version for path in pages for version in re.findall(r"PySpark ([\d.]+\d) or newer", path.read_text())}
    assert stated == {needed}


def test_the_constraints_pin_names_and_versions_and_nothing_else() -> None:
    lines = page("constraints.txt").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.!]+", line)] == []

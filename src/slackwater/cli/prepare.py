"""From the words of a command line to a bound query, its streams, and the runtime that is asked for.

Invariant: commands begin a run, take its tables and ask for its report; none of them knows where it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from rich.console import Console

from slackwater.core.batch import Words
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.core.options import Options, out_of_range
from slackwater.core.time import parse_duration
from slackwater.language.bind import Bound, sources_of
from slackwater.language.query_file import NamedQuery, QueryFile, read_query_file
from slackwater.language.static import StaticJoin
from slackwater.operators.pipeline import MOST_TUPLES, Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.local.run import LocalRun
from slackwater.runtime.recorded import RecordedRun
from slackwater.sources.binding import bind_to_tables, left_out, plan_over
from slackwater.sources.encode import TIME_UNITS
from slackwater.sources.files import StreamFile, read_streams
from slackwater.sources.lookups import Lookup, joined_tables, looked_up
from slackwater.sources.replay import Replay


@dataclass(frozen=True)
class Prepared:
    """A query ready to be planned, with the rows of its streams."""

    bound: Bound
    sources: dict[str, pa.Table]
    ranks: dict[str, Words] | None
    time_unit: str

    def plan(self, count_only: bool = False, identities: bool = False) -> PhysicalPlan:
        return plan_over(self.bound.query, self.sources, self.time_unit, count_only=count_only, identities=identities)


@dataclass(frozen=True)
class PreparedFile:
    """The queries of a file, each ready to be planned, over streams that were read once for all of them."""

    file: QueryFile
    queries: dict[str, Prepared]

    @property
    def streams(self) -> Prepared:
        """Any of the queries: their streams are the same."""
        return next(iter(self.queries.values()))

    def plans(self, count_only: bool, identities: bool = False) -> dict[str, PhysicalPlan]:
        """The plan of every query, by name."""

        def planned(query: NamedQuery) -> PhysicalPlan:
            return self.queries[query.name].plan(count_only, identities)

        return self.file.of_each(planned)


STATEMENTS = ("select", "explain", "with", "create")
"""The words that queries begin with. What begins with one of them, and goes on, is the query and not its file."""


LONGEST_NAME = 255
RANK = "\0rank"
"""A column of tables that are joined."""


def prepare(
    query: str | Path, streams: list[str], time: str, time_unit: str, overrides: dict[str, str | None]
) -> Prepared:
    """Read the query, a file or its text, and its streams, and bind one to the others."""
    return prepare_query(text_of(str(query)), streams, time, time_unit, overrides)


def prepare_query(
    text: str, streams: list[str], time: str, time_unit: str, overrides: dict[str, str | None],
    tables: Sequence[str] = (),
) -> Prepared:  # fmt: skip
    """Read the streams of a query and the static relations beside them, and bind it to them."""
    _check_unit(time_unit)
    files, lookups = _stream_files(streams), _lookups(tables, streams)
    _check_names([*(file.name for file in files), *lookups], sources_of(text))
    text, joins = looked_up(text, lookups)
    sources, ranks = _joined(*read_streams(files), joins, lookups)
    bound = bind_to_tables(text, sources, time)
    return Prepared(_with_options(bound, _given(overrides)), sources, ranks, time_unit)


def prepare_file(
    text: str, streams: list[str], time: str, time_unit: str, overrides: dict[str, str | None],
    tables: Sequence[str] = (),
) -> PreparedFile:  # fmt: skip
    """The same for a file of queries: whatever is wrong with one of them is reported before anything is run."""
    _check_unit(time_unit)
    file = read_query_file(text)
    files, lookups = _stream_files(streams), _lookups(tables, streams)
    names = [*(one.name for one in files), *lookups]
    file.check_streams(names, ". Give it as --stream {}=FILE.parquet")
    needed = file.sources()
    for name in names:
        if name.lower() not in {source.lower() for source in needed}:
            raise UsageError(f"--stream {name}: no query of the file reads it; they read {', '.join(needed)}")
    given = _given(overrides)
    texts = file.of_each(lambda query: looked_up(query.text, lookups, apart=True))
    joins = [join for _, own in texts.values() for join in own]
    sources, ranks = _joined(*read_streams(files), joins, lookups)
    bound = file.of_each(lambda query: _with_options(bind_to_tables(texts[query.name][0], sources, time), given))
    return PreparedFile(file, {name: Prepared(one, sources, ranks, time_unit) for name, one in bound.items()})


def _check_unit(time_unit: str) -> None:
    if time_unit not in TIME_UNITS:
        raise UsageError(f"--time-unit {time_unit}: it is one of {', '.join(TIME_UNITS)}")


def _stream_files(streams: list[str]) -> list[StreamFile]:
    files = [StreamFile.parse(stream) for stream in streams]
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise UsageError("a stream is given twice; each --stream needs a name of its own")
    return files


def _lookups(tables: Sequence[str], streams: Sequence[str]) -> dict[str, Lookup]:
    """The static relations by their names."""
    names = [StreamFile.parse(one).name for one in (*tables, *streams)]
    for one in tables:
        name = StreamFile.parse(one).name
        if names.count(name) > 1:
            raise UsageError(f"--table {name}: there is another stream or table of this name; call one otherwise")
    return {StreamFile.parse(one).name: Lookup(one.partition("=")[2]) for one in tables}


def _joined(
    sources: dict[str, pa.Table], ranks: dict[str, Words] | None, joins: Sequence[StaticJoin],
    lookups: Mapping[str, Lookup],
) -> tuple[dict[str, pa.Table], dict[str, Words] | None]:  # fmt: skip
    """Streams with what the relations have for them; a row that is there more often keeps its place in the order."""
    if not joins:
        return sources, ranks
    if ranks is not None:
        sources = {name: table.append_column(RANK, pa.array(ranks[name])) for name, table in sources.items()}
    found = joined_tables(joins, {**sources, **lookups})
    if ranks is not None:
        ranks = {name: table.column(RANK).to_numpy() for name, table in found.items()}
        found = {name: table.drop_columns([RANK]) for name, table in found.items()}
    return found, ranks


def note_left_out(prepared: Prepared, whose: str = "") -> None:
    """Print which columns `SELECT *` cannot give."""
    for column in left_out(prepared.bound.query, prepared.sources):
        note = f"note: {whose}{column} is left out; a query cannot read it"
        Console(stderr=True).print(note, markup=False, soft_wrap=True)


def text_of(query: str) -> str:
    """The text of a query that is given as a file, or as it is.

    >>> text_of("SELECT * FROM a [5 SECONDS]")
    'SELECT * FROM a [5 SECONDS]'
    >>> text_of("nowhere.sql")
    Traceback (most recent call last):
    slackwater.core.errors.UsageError: the query nowhere.sql cannot be read: ...; give a file or the text of a query
    """
    if not query.strip():
        raise UsageError("the query is empty; give a file or the text of a query")
    if query.lower().lstrip().startswith(STATEMENTS) and len(query.split()) > 1:
        return query
    try:
        text = Path(query).read_text()
    except (OSError, ValueError) as error:
        # What has several lines, or is too long for a name, was not meant as one.
        if "\n" in query.strip() or len(query) > LONGEST_NAME:
            return query
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"the query {query} cannot be read: {reason}; give a file or the text of a query") from None
    if not text.strip():
        raise UsageError(
            f"the file {query} is empty; write a query into it, or several: CREATE QUERY name AS SELECT ..."
        )
    return text


def load_functions(file: Path | None) -> None:
    """Run the user's own Python file, which registers functions that the query calls."""
    if file is None:
        return
    spec = spec_from_file_location("slackwater_user_functions", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"--functions {file}: this is not a Python file")
    try:
        spec.loader.exec_module(module_from_spec(spec))
    except (SlackwaterError, KeyboardInterrupt):
        raise
    except BaseException as error:
        ends = "; it ends the process, and is only to register functions" if isinstance(error, SystemExit) else ""
        raise UsageError(f"--functions {file}: {type(error).__name__}: {error}{ends}") from error


def _check_names(given: list[str], needed: tuple[str, ...]) -> None:
    folded = {name.lower() for name in given}
    missing = [name for name in needed if name.lower() not in folded]
    if missing:
        raise UsageError(f"the query reads {', '.join(missing)}: give it as --stream {missing[0]}=FILE.parquet")
    unused = [name for name in given if name.lower() not in {source.lower() for source in needed}]
    if unused:
        raise UsageError(f"--stream {unused[0]}: the query does not read it; it reads {', '.join(needed)}")


def _given(overrides: dict[str, str | None]) -> dict[str, Any]:
    """The options of a command line, as those of a query."""
    given: dict[str, Any] = {}
    for name, value in overrides.items():
        if value is None:
            continue
        option = name.replace("_", "-")
        given[name] = duration_of(option, value)
        wrong = out_of_range(name, given[name])
        if wrong is not None:
            raise UsageError(f"--{option}: {wrong}")
    return given


def _with_options(bound: Bound, given: dict[str, Any]) -> Bound:
    query = bound.query
    options: Options = replace(query.options, **given)
    return replace(bound, query=replace(query, options=options))


def duration_of(option: str, text: str) -> int:
    """The microseconds of an option's value.

    >>> duration_of("period", "5 s")
    5000000
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--{option}: {error}") from None


def positive_duration_of(option: str, text: str) -> int:
    """The same, for an option that must not be zero.

    >>> positive_duration_of("interval", "0 s")
    Traceback (most recent call last):
    slackwater.core.errors.UsageError: --interval 0 s: it must be longer than nothing
    """
    found = duration_of(option, text)
    if found == 0:
        raise UsageError(f"--{option} {text}: it must be longer than nothing")
    return found


def epochs_of(text: str) -> Epochs:
    """`1` is tuple release, `N` so many tuples, a duration so much event time.

    >>> epochs_of("1000").tuples, epochs_of("1 s").span, epochs_of("1").each_tuple
    (1000, 1000000, True)
    """
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit():
        # So many digits are no number of tuples, and more than a few thousand no number that Python reads.
        count = int(stripped) if len(stripped) < 20 else MOST_TUPLES + 1
        if count == 0:
            raise UsageError("--epoch 0: an epoch has at least one tuple")
        if count > MOST_TUPLES:
            raise UsageError(f"--epoch {stripped[:24]}: an epoch has at most {MOST_TUPLES:,} tuples")
        return Epochs(each_tuple=True) if count == 1 else Epochs(tuples=count)
    span = duration_of("epoch", stripped)
    if span == 0:
        raise UsageError(f"--epoch {text}: an epoch is longer than nothing")
    return Epochs(span=span)


LOCAL, SPARK = "local", "spark"
DEFAULT_EPOCH = {LOCAL: "1", SPARK: "50000"}
"""On Spark a micro-batch costs half a second whatever it holds, so it should hold much."""
ANYWHERE = "local[*]"
AVAILABLE = "available"
MOST_SHARDS = 100_000


class Runtime(Protocol):
    """Where a plan is run over recorded streams."""

    def begin(
        self, plan: PhysicalPlan, replay: Replay, sources: Mapping[str, pa.Table], time_unit: str
    ) -> AbstractContextManager[RecordedRun]:
        """A run, ready to give its tables; what it needs is put away at the end."""


@dataclass(frozen=True)
class Local:
    """In this process."""

    epochs: Epochs

    @contextmanager
    def begin(
        self, plan: PhysicalPlan, replay: Replay, sources: Mapping[str, pa.Table], time_unit: str
    ) -> Iterator[RecordedRun]:
        yield LocalRun(plan, replay, self.epochs)


def runtime_of(
    name: str,
    epoch: str | None = None,
    shards: int | None = None,
    master: str | None = None,
    checkpoint: Path | None = None,
    trigger: str | None = None,
) -> Runtime:
    """The runtime that options ask for; None leaves a choice to the runtime.

    >>> runtime_of("local", "1000")
    Local(epochs=Epochs(each_tuple=False, tuples=1000, span=0))
    """
    if name not in DEFAULT_EPOCH:
        raise UsageError(f"--runtime {name}: it is {LOCAL} or {SPARK}")
    epochs = epochs_of(epoch or DEFAULT_EPOCH[name])
    if name == LOCAL:
        given = {"shards": shards, "master": master, "checkpoint": checkpoint, "trigger": trigger}
        for option, value in given.items():
            if value is not None:
                raise UsageError(f"--{option} is an option of --runtime {SPARK}")
        return Local(epochs)
    if epochs.each_tuple:
        raise UsageError(
            f"--epoch {epoch}: Spark works in micro-batches and has no tuple release; say how many tuples a micro-batch"
            f" takes (--epoch {DEFAULT_EPOCH[SPARK]}) or how much event time (--epoch '1 s')"
        )
    if shards is not None and not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"--shards {shards}: there are from 1 to {MOST_SHARDS:,}")
    from slackwater.runtime.spark.replay.recording import SparkRuntime

    return SparkRuntime(epochs, shards or os.cpu_count() or 1, master or ANYWHERE, checkpoint, _trigger(trigger))


def _trigger(text: str | None) -> str:
    """`available`, or a duration in the words of Spark."""
    if text is None or text == AVAILABLE:
        return AVAILABLE
    return f"{duration_of('trigger', text)} microseconds"

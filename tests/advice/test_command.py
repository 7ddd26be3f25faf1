"""`slackwater advise` and `slackwater.advise`: what they print, draw, and refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.advice.answer import in_whole_units
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.core.time import unit_size
from tests.advice.streams import disordered
from tests.cli.conftest import Command
from tests.cli.conftest import command as command
from tests.effort import more

JOIN = "SELECT a.v AS av FROM a [RANGE 300 MS], b [RANGE 500 MS] WHERE a.key = b.key"
TOTAL = "SELECT key, SUM(v) AS total FROM a [RANGE 500 MS] GROUP BY key"


@pytest.fixture
def streams(tmp_path: Path) -> Callable[[int], list[str]]:
    def write(count: int) -> list[str]:
        given = []
        for name, table in disordered(1, count, 200, 10).items():
            pq.write_table(table, tmp_path / f"{name}.parquet")
            given += ["--stream", f"{name}={tmp_path / name}.parquet"]
        return given

    return write


def test_the_table_has_the_slack_of_every_target_and_says_what_to_write(
    command: Command, streams: Callable[[int], list[str]]
) -> None:
    done = command("advise", JOIN, *streams(2))
    assert done.code == 0, done.err
    for word in ("slack", "recall", "latency", "state", "lost by a", "0.999", "stream b alone", "WITH DELAY", "RECALL"):
        assert word in done.out
    assert "withWatermark" not in done.out


def test_as_json_it_has_the_whole_curve(command: Command, streams: Callable[[int], list[str]]) -> None:
    done = command("advise", JOIN, *streams(2), "--json", "--for", "spark", "--slack", "120 ms", "--epoch", "20")
    assert done.code == 0, done.err
    advice = json.loads(done.out)
    assert advice["measure"] == "recall"
    assert 120.0 in [point["slack_ms"] for point in advice["points"]]
    assert advice["curve"]["kept"] == sorted(advice["curve"]["kept"])
    assert set(advice["least_slack_ms"]) == {"0.9", "0.95", "0.99", "0.999"}
    assert advice["for_spark"]["with_watermark"]["0.99"][0].startswith('a.withWatermark("ts", "')
    assert advice["for_spark"]["micro_batch"] == "20 tuples"


def test_an_aggregate_is_advised_on_by_its_error(command: Command, streams: Callable[[int], list[str]]) -> None:
    done = command("advise", TOTAL, *streams(1), "--error", "0.05", "--for", "spark")
    assert done.code == 0, done.err
    for word in ("error <= 0.05", "mean error", "never", "open rows", "withWatermark", "ERROR 0.05 CONFIDENCE 0.99"):
        assert word in done.out


def test_a_line_to_copy_is_whole_on_a_narrow_terminal_and_its_delay_can_be_read(
    command: Command, tmp_path: Path
) -> None:
    # One row in ten of the first stream is 1,779.521 s behind.
    name, time = "readings_of_the_first_gateway", "event_time_of_the_device"
    ts = [10_000_000 + 60_000 * i - (1_779_521 if i % 10 == 0 else 0) for i in range(200)]
    for first, file, column in ((0, name, ts), (1, "b", [10_000_000 + 60_000 * i for i in range(200)])):
        table = {"arrival": range(first, 400, 2), time: column, "k": [i % 3 for i in range(200)]}
        pq.write_table(pa.table({one: list(values) for one, values in table.items()}), tmp_path / f"{file}.parquet")
    query = f"SELECT b.k AS k FROM {name} r [RANGE 10 MINUTES], b [RANGE 10 MINUTES] WHERE r.k = b.k"
    given = [option for file in (name, "b") for option in ("--stream", f"{file}={tmp_path / file}.parquet")]
    done = command("advise", query, *given, "--time", time, "--for", "spark")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert "WITH DELAY 1695 SECONDS" in lines
    assert "WITH RECALL 0.99 OVER 1 MINUTE AT MOST 1695 SECONDS" in lines, "the default cap would be too little"
    assert "28.2 min" in done.out
    assert "1694" not in done.out
    copied = [line for line in lines if "withWatermark" in line]
    assert len(copied) == 4
    for line in copied:
        assert re.fullmatch(r'(r|b)\.withWatermark\("event_time_of_the_device", "(0|1600) seconds"\)', line), line
    assert "rounded up" in done.out


@pytest.mark.parametrize(
    ("micros", "said"),
    [
        (0, (0, "seconds", False)),
        (241_000, (241, "milliseconds", False)),
        (241_500, (241_500, "microseconds", False)),
        (600_000_000, (10, "minutes", False)),
        (1_779_521_000, (1780, "seconds", True)),
        (81_930_600_000, (1366, "minutes", True)),
        (99_999_001, (99_999_001, "microseconds", False)),
        (100_000_001, (101, "seconds", True)),
        (172_800_000_000, (2, "days", False)),
    ],
)
def test_a_delay_to_write_is_exact_or_rounded_up_by_less_than_a_hundredth(
    micros: int, said: tuple[int, str, bool]
) -> None:
    count, unit, rounded = in_whole_units(micros)
    assert (count, unit, rounded) == said
    assert micros <= count * (unit_size(unit) or 0) <= 1.01 * micros


def test_a_figure_is_drawn(command: Command, streams: Callable[[int], list[str]], tmp_path: Path) -> None:
    for query, count in ((JOIN, 2), (TOTAL, 1)):
        figure = tmp_path / "curve.png"
        assert command("advise", query, *streams(count), "--figure", figure).code == 0
        assert figure.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("query", "count", "said"),
    [
        ("SELECT DISTINCT key FROM a [RANGE 1 SECOND]", 1, "advise takes joins"),
        ("SELECT MEDIAN(v) AS m FROM a [RANGE 1 SECOND]", 1, "MEDIAN keeps all values"),
        ("SELECT SUM(v) AS t FROM a [RANGE 1 SECOND] HAVING SUM(v) > 1", 1, "HAVING"),
        ("SELECT SUM(v) AS t FROM a [ROWS 10]", 1, "not one of time"),
        (f"{JOIN} OPTIONS (shape = 'binary')", 2, "shape and join"),
        ("SELECT DSTREAM a.v AS v FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.key = b.key", 2, "DSTREAM"),
        ("SELECT COUNT(*) AS n FROM (SELECT a.v AS v FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.key = b.key) j"
         " [RANGE 1 SECOND]", 2, "others inside"),
        (f"EXPLAIN {JOIN}", 2, "EXPLAIN"),
        (f"CREATE QUERY one AS {JOIN};", 2, "one query"),
    ],
)  # fmt: skip
def test_what_cannot_be_advised_on_is_refused(
    command: Command, streams: Callable[[int], list[str]], query: str, count: int, said: str
) -> None:
    done = command("advise", query, *streams(count))
    assert done.code == 2
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--for", "flink", "it is spark"),
        ("--error", "2", "a share"),
        ("--slack", "soon", "not a duration"),
        ("--figure", "curve.txt", "ends in"),
        ("--epoch", "0", "at least one tuple"),
    ],
)
def test_a_wrong_option_is_refused(
    command: Command, streams: Callable[[int], list[str]], option: str, value: str, said: str
) -> None:
    done = command("advise", JOIN, *streams(2), option, value)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_a_file_that_is_not_there_is_an_error_of_data(command: Command) -> None:
    assert command("advise", "SELECT v FROM s", "--stream", "s=nowhere.parquet").code == 3


def test_from_python_it_prints_itself_and_shows_itself_in_a_notebook() -> None:
    tables = disordered(1, 2, 100, 10)
    advice = sw.advise(JOIN, **tables, slacks=["40 ms"], for_spark=True)
    assert "least slack for" in str(advice)
    assert "least slack for" in advice._repr_html_()
    assert advice.point(40_000).slack == 40_000
    assert str(sw.advise(JOIN, tables)) == str(sw.advise(None, JOIN, tables))


def test_from_python_wrong_use_is_refused() -> None:
    tables = disordered(1, 2, 20, 10)
    for wrong in (
        lambda: sw.advise(),
        lambda: sw.advise(JOIN, [1]),
        lambda: sw.advise(JOIN, tables, error=3.0),
        lambda: sw.advise(JOIN, tables, slacks=["later"]),
        lambda: sw.advise(JOIN, tables, watch="1 minute"),
        lambda: sw.advise(JOIN, tables, epochs=sw.Epochs()),
    ):
        with pytest.raises(UsageError):
            wrong()
    with pytest.raises(SlackwaterError):
        sw.advise(f"EXPLAIN {JOIN}", tables)


def test_spark_drops_what_is_not_newer_than_the_watermark_of_two_micro_batches_before() -> None:
    # Micro-batches of two rows. The fifth row comes in the third, where the watermark is that of the first: 1 s.
    rows = pa.table({"ts": [500, 1000, 5000, 5001, 900, 5002]})
    text = "SELECT ts FROM s"
    advice = sw.advise(text, s=rows, for_spark=True, epochs=sw.Epochs(tuples=2))
    assert advice.for_spark is not None
    assert advice.for_spark.curve.at(0) == pytest.approx(5 / 6)
    assert advice.for_spark.curve.least(1.0) == 101_000


@pytest.mark.parametrize("seed", [0, *more("another seed, here", 1, 2)])
def test_a_join_on_a_key_loses_on_spark_whatever_rows_it_drops(seed: int) -> None:
    tables = disordered(seed, 2, 120, 10)
    keyed = sw.advise(JOIN, tables, for_spark=True, epochs=sw.Epochs(tuples=30))
    # The same question in words that no key answers.
    enumerated = sw.advise(f"{JOIN} AND a.v + b.v > -100", tables, for_spark=True, epochs=sw.Epochs(tuples=30))
    assert keyed.for_spark is not None
    assert enumerated.for_spark is not None
    assert keyed.for_spark.curve.kept.tolist() == enumerated.for_spark.curve.kept.tolist()
    assert keyed.for_spark.curve.at(0) < 1

"""Windows of aggregates as Spark and Flink write them: queries of their documentation, with DuckDB's answers over the
same rows; a watermark's delay; and windows of windows."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from slackwater.runtime.local.answer import replay

MINUTE = 60_000_000
TIME = pa.timestamp("us", "UTC")


def bids(seed: int, rows: int = 400) -> pa.Table:
    """Two hours of bids, up to a minute late, some before 1970."""
    of = random.Random(seed)
    times = [(at - rows // 3) * 2 * 60 * MINUTE // rows - of.randrange(MINUTE) for at in range(rows)]
    return pa.table(
        {
            "bidtime": pa.array(times, TIME),
            "price": [float(of.randrange(100)) for _ in times],
            "item": [of.choice("ABC") for _ in times],
        }
    )


BIDS = bids(1)


def answer(query: str) -> list[tuple[Any, ...]]:
    """The rows without the time of each, in the order of their windows."""
    rows = replay(f"{query} WITH DELAY 1 HOUR", {"Bid": BIDS}, time="bidtime").results.to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def truth(size: int, slide: int, grouped: str = "", shown: str = "") -> list[tuple[Any, ...]]:
    """The same in DuckDB: each bid in each of its windows."""
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.register("bid", BIDS.set_column(0, "bidtime", BIDS["bidtime"].cast(pa.int64())))
    base.execute(
        f"""CREATE TABLE windowed AS SELECT *, s.start AS window_start, s.start + {size} AS window_end
        FROM (SELECT *, bidtime - ((bidtime % {slide}) + {slide}) % {slide} AS last FROM bid) b,
        LATERAL (SELECT b.last - n.n * {slide} AS start FROM range({-(-size // slide)}) n(n)) s
        WHERE s.start + {size} > b.bidtime"""
    )
    by = f"window_start, window_end{grouped}"
    found = base.execute(
        f"""SELECT make_timestamptz(window_start), make_timestamptz(window_end){shown}{grouped}, SUM(price)
        FROM windowed GROUP BY {by}"""
    ).fetchall()
    return sorted(found)


FLINK = "SELECT window_start, window_end, SUM(price) AS total_price FROM"


@pytest.mark.parametrize(
    ("query", "size", "slide", "grouped"),
    [
        # https://nightlies.apache.org/flink/flink-docs-stable/docs/dev/table/sql/queries/window-agg/
        (
            f"""{FLINK} TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))
            GROUP BY window_start, window_end""",
            10, 10, "",
        ),
        (
            f"""{FLINK} TABLE(TUMBLE(DATA => TABLE Bid, TIMECOL => DESCRIPTOR(bidtime), SIZE => INTERVAL '10' MINUTES))
            GROUP BY window_start, window_end""",
            10, 10, "",
        ),
        (
            f"""{FLINK} TABLE(HOP(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
            GROUP BY window_start, window_end""",
            10, 5, "",
        ),
        (
            """SELECT item, TUMBLE_START(bidtime, INTERVAL '1' HOUR) AS wStart, SUM(price) AS total FROM Bid
            GROUP BY TUMBLE(bidtime, INTERVAL '1' HOUR), item""",
            60, 60, ", item",
        ),
        # https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select.html and structured-streaming-programming-guide
        (
            """SELECT window.start, window.end, item, sum(price) AS total FROM Bid
            GROUP BY window(bidtime, '10 minutes', '5 minutes'), item""",
            10, 5, ", item",
        ),
        (
            "SELECT item, window, SUM(price) FROM Bid GROUP BY item, window(bidtime, '7 minutes', '3 minutes')",
            7, 3, ", item",
        ),
        ("SELECT item, SUM(price) FROM Bid [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY item", 10, 5, ", item"),
    ],
)  # fmt: skip
def test_a_documented_query_has_the_answer_of_a_database(query: str, size: int, slide: int, grouped: str) -> None:
    found = answer(query)
    if "wStart" in query:
        assert all(row[0] == row[3] for row in found)
        found = sorted((*row[:3], row[4]) for row in found)
    assert found == truth(size * MINUTE, slide * MINUTE, grouped)


def test_a_window_of_windows_goes_by_the_time_that_spark_names() -> None:
    inner = "SELECT window_time(window) AS at, SUM(price) AS part FROM Bid GROUP BY window(bidtime, '5 minutes')"
    found = answer(f"SELECT window.start, SUM(part) AS total FROM ({inner}) p GROUP BY window(at, '1 hour')")
    assert found == truth(60 * MINUTE, 60 * MINUTE)


def test_a_watermark_is_a_delay_where_nothing_else_is_said() -> None:
    def late(query: str) -> int:
        return len(replay(query, {"Bid": BIDS}, time="bidtime").late["Bid"])

    counted = (
        "SELECT COUNT(*) AS n FROM STREAM Bid WATERMARK bidtime DELAY OF INTERVAL {} GROUP BY window(bidtime, '5 min')"
    )
    plain = "SELECT COUNT(*) AS n FROM Bid [5 MINUTES] WITH DELAY {}"
    assert late(counted.format("2 MINUTES")) == 0 < late(counted.format("1 SECOND")) == late(plain.format("1 SECOND"))
    assert late(counted.format("1 SECOND") + " WITH DELAY 2 MINUTES") == 0

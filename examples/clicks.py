"""Impressions and clicks: which ads were clicked within 30 seconds, with 95 % of all pairs, and then with 99 %.

Two streams of JSON files, as applications write them, with rows that arrive out of order. One query gives the pairs,
the late rows and the rejected rows. It is stopped, started again from its checkpoint, and asked for more while it runs.

Run it with `python examples/clicks.py`; it makes its own files in a temporary folder.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import slackwater as sw

QUERY = """
    SELECT i.ad, i.user, i.ts AS shown, c.ts AS clicked
    FROM impressions i [RANGE 30 SECONDS], clicks c [RANGE 30 SECONDS]
    WHERE i.user = c.user AND i.ad = c.ad AND c.ts >= i.ts
    WITH RECALL 0.95 OVER 1 MINUTE
"""
IMPRESSIONS = "ts timestamp, user string, ad string"
CLICKS = "ts timestamp, user string, ad string, page struct<url: string>"
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


Arrival = tuple[float, str, dict[str, object]]
"""When a row arrives, in which stream, and the row."""


def arrivals(seconds: int, rng: random.Random) -> list[Arrival]:
    """Both streams in the order of arrival: most rows are a second or two late, one in a hundred up to a minute."""
    rows: list[Arrival] = []
    for _ in range(20 * seconds):
        second = seconds * rng.random()
        user, ad = f"user-{rng.randrange(400)}", f"ad-{rng.randrange(40)}"
        rows.append((second + delay(rng), "impressions", {"ts": when(second), "user": user, "ad": ad}))
        if rng.random() < 0.4:
            clicked = second + 25 * rng.random()
            click = {"ts": when(clicked), "user": user, "ad": ad, "page": {"url": f"/{ad}"}}
            rows.append((clicked + delay(rng), "clicks", click))
    rows += [(60.0 * minute, "clicks", {"ts": None, "user": "user-0", "ad": "ad-0"}) for minute in range(seconds // 60)]
    return sorted(rows, key=lambda row: row[0])


def write_files(folder: Path, rows: list[Arrival], begin: int, end: int) -> None:
    """What arrives from one second to another, as one JSON file of each stream every twenty seconds."""
    for since in range(begin, end, 20):
        for stream in ("impressions", "clicks"):
            lines = [json.dumps(row) for at, of, row in rows if of == stream and since <= at < since + 20]
            (folder / stream).mkdir(exist_ok=True)
            (folder / stream / f"second-{since:05d}.json").write_text("\n".join(lines) + "\n")


def when(second: float) -> str:
    """An event time as JSON writes it."""
    return (NOON + timedelta(seconds=round(second, 3))).isoformat()


def delay(rng: random.Random) -> float:
    """Seconds until a row arrives."""
    return 60 * rng.random() if rng.random() < 0.01 else rng.expovariate(1 / 1.5)


def main() -> int:
    """Run the story; returns 0."""
    folder = Path(tempfile.mkdtemp(prefix="clicks-"))
    rows = arrivals(240, random.Random(7))  # noqa: S311
    write_files(folder, rows, 0, 80)
    spark = sw.session(shards=2)
    read = spark.readStream.option("maxFilesPerTrigger", 1)
    impressions = read.schema(IMPRESSIONS).json(str(folder / "impressions"))
    clicks = read.schema(CLICKS).json(str(folder / "clicks"))
    sinks = {
        "results": str(folder / "pairs"),
        "late": str(folder / "late"),
        "rejected": str(folder / "rejected"),
        "checkpoint": str(folder / "checkpoint"),
    }
    print(sw.explain(QUERY, impressions=impressions, clicks=clicks))

    print("\nthe first minutes, then stop:")
    with sw.start(spark, QUERY, impressions=impressions, clicks=clicks, **sinks) as query:
        query.process_all_available()
        print(query.progress())

    print("\nmore of them, from the checkpoint; then 99 % is asked for:")
    write_files(folder, rows, 80, 160)
    with sw.start(spark, QUERY, impressions=impressions, clicks=clicks, **sinks) as query:
        query.process_all_available()
        query.set_target(sw.recall(0.99, over="1 minute"))
        write_files(folder, rows, 160, 300)
        query.process_all_available()
        print(query.progress())

    print("\nthe rest, and everything that is held:")
    last = sw.start(spark, QUERY, impressions=impressions, clicks=clicks, trigger="available", flush=True, **sinks)
    last.wait()
    done = last.progress()
    print(done)
    pairs, late, rejected = (spark.read.parquet(sinks[name]) for name in ("results", "late", "rejected"))
    print(f"\n{pairs.count():,} pairs, {late.count():,} late rows, {rejected.count():,} rejected rows are in {folder}")
    pairs.orderBy("_ts").show(3, truncate=False)
    late.show(3, truncate=False)
    assert (pairs.count(), late.count()) == (done.results, done.late)
    assert rejected.count() == sum(done.rejected.values())
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

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


def write_minutes(folder: Path, minutes: range, rng: random.Random) -> None:
    """Some minutes of both streams, one file of each a minute: most rows are seconds late, a few a minute and more."""
    for minute in minutes:
        rows: dict[str, list[tuple[float, dict[str, object]]]] = {"impressions": [], "clicks": []}
        for _ in range(1200):
            second = 60 * minute + 60 * rng.random()
            user, ad = f"user-{rng.randrange(400)}", f"ad-{rng.randrange(40)}"
            shown = {"ts": when(second), "user": user, "ad": ad}
            rows["impressions"].append((second + delay(rng), shown))
            if rng.random() < 0.4:
                after = second + 25 * rng.random()
                click = {"ts": when(after), "user": user, "ad": ad, "page": {"url": f"/{ad}"}}
                rows["clicks"].append((after + delay(rng), click))
        rows["clicks"].append((60 * minute + 30.0, {"ts": None, "user": "user-0", "ad": "ad-0"}))
        for name, arrivals in rows.items():
            arrivals.sort(key=lambda arrival: arrival[0])
            (folder / name).mkdir(exist_ok=True)
            lines = [json.dumps(row) for _, row in arrivals]
            (folder / name / f"minute-{minute:03d}.json").write_text("\n".join(lines) + "\n")


def when(second: float) -> str:
    """An event time as JSON writes it."""
    return (NOON + timedelta(seconds=round(second, 3))).isoformat()


def delay(rng: random.Random) -> float:
    """Seconds until a row arrives: short for most, up to two minutes for one in a hundred."""
    return 120 * rng.random() if rng.random() < 0.01 else rng.expovariate(1 / 2.0)


def main() -> int:
    """Run the story; returns 0."""
    folder = Path(tempfile.mkdtemp(prefix="clicks-"))
    rng = random.Random(7)  # noqa: S311
    write_minutes(folder, range(6), rng)
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

    print("\nsix minutes of data, then stop:")
    with sw.start(spark, QUERY, impressions=impressions, clicks=clicks, **sinks) as query:
        query.process_all_available()
        print(query.progress())

    print("\nsix more minutes, from the checkpoint; then 99 % is asked for:")
    write_minutes(folder, range(6, 12), rng)
    with sw.start(spark, QUERY, impressions=impressions, clicks=clicks, **sinks) as query:
        query.process_all_available()
        query.set_target(sw.recall(0.99, over="1 minute"))
        write_minutes(folder, range(12, 18), rng)
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

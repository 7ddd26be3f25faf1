"""One query in Flink SQL, over folders of parquet files: `python flink_side.py RACE FOLDERS JARS`.

It runs in the environment that `flink.py` makes, so it imports nothing of ours. Event time, watermarks and windows are
those of the other sides; results are thrown away.
"""

from __future__ import annotations

import json
import sys
import time

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

COLUMNS = {
    "s": "ts BIGINT, arrival BIGINT, key BIGINT, v DOUBLE",
    "a": "ts BIGINT, arrival BIGINT, key BIGINT, v DOUBLE, x DOUBLE, y DOUBLE",
    "s1": "ts BIGINT, arrival BIGINT, a1 BIGINT",
}
NEAR = "a.moment BETWEEN b.moment - INTERVAL '5' SECOND AND b.moment + INTERVAL '5' SECOND"
AROUND = "(VALUES (-1), (0), (1))"
QUERIES = {
    "A1": "SELECT window_start, SUM(v) AS total FROM TABLE(HOP(TABLE s, DESCRIPTOR(moment), INTERVAL '0.1' SECOND,"
    " INTERVAL '1' SECOND)) GROUP BY window_start, window_end",
    "A2": "SELECT key, window_start, SUM(v) AS total FROM TABLE(HOP(TABLE s, DESCRIPTOR(moment), INTERVAL '0.1' SECOND,"
    " INTERVAL '1' SECOND)) GROUP BY key, window_start, window_end",
    "J2": f"SELECT a.key, a.v AS av, b.v AS bv FROM a, b WHERE a.key = b.key AND {NEAR}",
    "T2": "SELECT a.v AS av, b.v AS bv FROM (SELECT a.*, (CAST(FLOOR(x / 5) AS INT) + i.n) * 1000 +"
    f" CAST(FLOOR(y / 5) AS INT) + j.n AS cell FROM a CROSS JOIN {AROUND} AS i(n) CROSS JOIN {AROUND} AS j(n)) a,"
    " (SELECT *, CAST(FLOOR(x / 5) AS INT) * 1000 + CAST(FLOOR(y / 5) AS INT) AS cell FROM b) b"
    f" WHERE a.cell = b.cell AND (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) < 25 AND {NEAR}",
    "J3": "SELECT s1.a1 FROM s1, s2, s3 WHERE s1.a1 = s2.a1 AND s2.a1 = s3.a1"
    " AND s1.moment BETWEEN s2.moment - INTERVAL '5' SECOND AND s2.moment + INTERVAL '5' SECOND"
    " AND s2.moment BETWEEN s3.moment - INTERVAL '5' SECOND AND s3.moment + INTERVAL '5' SECOND"
    " AND s1.moment BETWEEN s3.moment - INTERVAL '5' SECOND AND s3.moment + INTERVAL '5' SECOND",
}


def columns_of(name: str) -> str:
    """The columns of a stream."""
    return COLUMNS.get(name) or COLUMNS["a" if name == "b" else "s1"]


def main() -> None:
    race, folders, jars = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = flink.get_config()
    settings.set("pipeline.jars", ";".join(f"file://{jar}" for jar in jars))
    settings.set("parallelism.default", "2")
    settings.set("table.local-time-zone", "UTC")
    settings.set("taskmanager.memory.managed.size", "512m")
    for name, folder in folders.items():
        flink.execute_sql(
            f"CREATE TABLE {name} ({columns_of(name)}, moment AS TO_TIMESTAMP_LTZ(ts, 3),"
            " WATERMARK FOR moment AS moment - INTERVAL '2' SECOND)"
            f" WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'parquet')"
        )
    flink.execute_sql(f"CREATE TEMPORARY VIEW answers AS {QUERIES[race]}")
    begun = time.monotonic()
    schema = flink.from_path("answers").get_schema()
    named = ", ".join(
        f"`{name}` {_sql(str(kind))}"
        for name, kind in zip(schema.get_field_names(), schema.get_field_data_types(), strict=True)
    )
    flink.execute_sql(f"CREATE TABLE nowhere ({named}) WITH ('connector' = 'blackhole')")
    flink.execute_sql("INSERT INTO nowhere SELECT * FROM answers").wait()
    print(json.dumps({"race": race, "seconds": time.monotonic() - begun}))


def _sql(kind: str) -> str:
    """A type as SQL writes it."""
    for known in ("BIGINT", "DOUBLE", "INT"):
        if known in kind.upper():
            return known
    return "TIMESTAMP(3)"


if __name__ == "__main__":
    main()

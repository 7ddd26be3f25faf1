"""Queries in Flink SQL, one a line of standard input: `python flink_side.py JARS DELAY_S`.

It runs in the environment that `benchmarks/flink.py` makes, so it imports nothing of ours. A line names the folders of
the streams, views, the query, and where its rows go; a line of `{"done": ...}` says that they are there, or why not.
"""

from __future__ import annotations

import json
import re
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

COLUMNS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,"
    " expires TIMESTAMP(3), seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING",
}
PARQUET = "'format' = 'parquet', 'parquet.utc-timezone' = 'true'"
SETTINGS = {
    # One task reads files in their order; two would read them side by side, and rows would be late.
    "parallelism.default": "1",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.managed.size": "512m",
    # The file sink shows rows after a checkpoint, and there is one at the end of the input.
    "execution.checkpointing.interval": "10 min",
}


def quoted(text: str) -> str:
    """A text in which the event time is no word of Flink's."""
    return re.sub(r"\bdateTime\b", "`dateTime`", text)


def answered(asked: dict[str, object], jars: list[str], delay: str) -> str:
    """Why a query failed; empty where its rows are in the folder."""
    flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = flink.get_config()
    for name, value in {**SETTINGS, "pipeline.jars": ";".join(f"file://{jar}" for jar in jars)}.items():
        settings.set(name, value)
    try:
        for name, folder in asked["streams"].items():  # type: ignore[attr-defined]
            columns = f"{COLUMNS[name]}, extra STRING, dateTime TIMESTAMP(3)"
            waits = f"WATERMARK FOR dateTime AS dateTime - INTERVAL '{delay}' SECOND"
            flink.execute_sql(
                quoted(f"CREATE TABLE {name} ({columns}, {waits})")
                + f" WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', {PARQUET})"
            )
        for view in asked["views"]:  # type: ignore[attr-defined]
            flink.execute_sql(quoted(view))
        there = f"'connector' = 'filesystem', 'path' = 'file://{asked['out']}', {PARQUET}"
        flink.execute_sql(f"CREATE TABLE answers WITH ({there}) AS {quoted(str(asked['query']))}").wait()
    except Exception as error:
        said = [line.strip() for line in str(error).splitlines() if "Exception" in line]
        return " | ".join(said)[:600] or type(error).__name__
    return ""


def main() -> None:
    jars, delay = json.loads(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        print(json.dumps({"done": answered(json.loads(line), jars, delay)}), flush=True)


if __name__ == "__main__":
    main()

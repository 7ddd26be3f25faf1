"""A query from topics to topics as a process of its own, which can be killed and started again on the same folder.

Run as `python -m tests.kafka.job FOLDER`; `FOLDER/job.json` says what it does. When it has come to its end by itself it
writes `FOLDER/done.json`: what it has counted, or the one sentence of what went wrong.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import slackwater as sw
from slackwater.core.errors import SlackwaterError

SCHEMA = "ts timestamp, key string, v long"
SHARDS = 2


@dataclass(frozen=True)
class Job:
    """What a process does."""

    query: str
    servers: str
    connector: str
    topics: dict[str, str]
    """By the names of the streams."""
    results: str
    rejected: str | None = None
    available: bool = True
    flush: bool = True
    repeat: bool = False
    """Come to the end without a flush, forget that the last micro-batch is done, and start again in this process."""
    source: dict[str, str] = field(default_factory=dict)
    """Options of the source."""

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "done.json").unlink(missing_ok=True)
        (folder / "job.json").write_text(json.dumps(asdict(self)))


def run(job: Job, folder: Path) -> dict[str, object]:
    spark = sw.session("local[2]", shards=SHARDS, kafka=job.connector, quiet=True)
    options = {"startingOffsets": "earliest"} | job.source
    streams = {
        name: sw.kafka(spark, job.servers, topic, schema=SCHEMA, **options) for name, topic in job.topics.items()
    }

    def started(flush: bool) -> sw.RunningQuery:
        query = sw.start(
            spark,
            job.query,
            results=sw.kafka_sink(job.servers, job.results, key="key"),
            rejected=None if job.rejected is None else sw.kafka_sink(job.servers, job.rejected),
            checkpoint=folder / "checkpoint",
            trigger="available" if job.available else "300 milliseconds",
            flush=flush,
            **streams,
        )
        assert isinstance(query, sw.RunningQuery)
        return query

    if job.repeat:
        started(flush=False).wait()
        forget_last_commit(folder / "checkpoint" / "commits")
    query = started(job.flush)
    (folder / "started").touch()
    query.wait()
    done = query.progress()
    return {
        "results": done.results,
        "late": done.late,
        "rejected": dict(done.rejected),
        "quality": None if done.quality is None else done.quality.measured,
        "slack": done.slack.total_seconds(),
    }


def forget_last_commit(commits: Path) -> None:
    """As a kill between the commit of Kafka and that of Spark leaves it."""
    last = max((one for one in commits.glob("[0-9]*") if one.name.isdigit()), key=lambda one: int(one.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0])
    job = Job(**json.loads((folder / "job.json").read_text()))
    try:
        said = run(job, folder)
    except SlackwaterError as error:
        said = {"error": str(error), "kind": type(error).__name__}
    hidden = folder / ".done"
    hidden.write_text(json.dumps(said))
    hidden.rename(folder / "done.json")


if __name__ == "__main__":
    main(sys.argv[1:])

"""What the one job of a micro-batch says of every query of a set: its metrics, and the files that are written.

Invariant: files are told by the attempts that were successful, each once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from slackwater.runtime.spark.folders import KINDS, WRITTEN, Folder, folder_of
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.outputs import Told
from slackwater.runtime.spark.query_set.host import Output
from slackwater.runtime.spark.query_set.members import Member
from slackwater.runtime.spark.sinks import Called, Sink


class Answered(NamedTuple):
    """What the job of a micro-batch has said."""

    told: dict[str, Told]
    """Of every query, by its key, which outputs have rows and what its shards say."""
    files: dict[Output, list[str]]
    """Files that are written and not yet published."""


def answered(emitted: DataFrame, members: Sequence[Member]) -> Answered:
    """Compute a micro-batch in one job; what goes to folders is then written there, under hidden names."""
    kinds: dict[str, set[str]] = {one.key: set() for one in members}
    shards: dict[str, list[Any]] = {one.key: [] for one in members}
    files: dict[Output, list[str]] = defaultdict(list)
    for key, kind, note in emitted.select("query", "kind", "note").collect():
        if kind == METRICS:
            shards[key].append(json.loads(note))
        elif kind == WRITTEN:
            what, _, name = note.partition("/")
            kinds[key].add(what)
            files[key, what].append(name)
        else:
            kinds[key].add(kind)
    return Answered({key: Told(frozenset(kinds[key]), shards[key]) for key in kinds}, files)


def local_folders(
    spark: SparkSession, members: Sequence[Member], writers: Mapping[str, Mapping[str, Sink | Called]]
) -> dict[Output, Folder]:
    """Those outputs that are written by the one job; the others need a writer of Spark, or a function, each."""
    found = {}
    for one in members:
        for what, writer in writers.get(one.name, {}).items():
            folder = folder_of(spark, one.plan, what, writer)
            if folder is not None:
                found[one.key, KINDS[what]] = folder
    return found

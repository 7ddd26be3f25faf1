"""What the one job of a micro-batch says of every query of a set: its metrics, and the files that are written.

Invariant: files are told by the attempts that were successful, each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from slackwater.runtime.spark.folders import KINDS, Folder, folder_of
from slackwater.runtime.spark.outputs import Answer, Told
from slackwater.runtime.spark.query_set.host import Output
from slackwater.runtime.spark.query_set.members import Member
from slackwater.runtime.spark.sinks import Writer


class Answered(NamedTuple):
    """What the job of a micro-batch has said."""

    told: dict[str, Told]
    """Of every query, by its key, which outputs have rows and what its shards say."""
    files: dict[Output, list[str]]
    """Files that are written and not yet published."""


def answered(emitted: DataFrame, members: Sequence[Member]) -> Answered:
    """Compute a micro-batch in one job; what goes to folders is then written there, under hidden names."""
    answers = {one.key: Answer() for one in members}
    for key, kind, note in emitted.select("query", "kind", "note").collect():
        answers[key].note(kind, note)
    files = {(key, kind): names for key, one in answers.items() for kind, names in one.files.items()}
    return Answered({key: one.told for key, one in answers.items()}, files)


def local_folders(
    spark: SparkSession, members: Sequence[Member], writers: Mapping[str, Mapping[str, Writer]]
) -> dict[Output, Folder]:
    """Those outputs that are written by the one job; the others need a writer of Spark, or a function, each."""
    found = {}
    for one in members:
        for what, writer in writers.get(one.name, {}).items():
            folder = folder_of(spark, one.plan, what, writer)
            if folder is not None:
                found[one.key, KINDS[what]] = folder
    return found

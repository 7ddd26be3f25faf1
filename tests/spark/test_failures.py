"""What went wrong inside Spark is one sentence that has the cause, wherever it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from py4j.protocol import Py4JNetworkError

from slackwater.core.errors import SlackwaterError
from slackwater.runtime.spark.failures import as_ours, one_sentence
from slackwater.runtime.spark.progress import progress
from slackwater.runtime.spark.running import Running

SINK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "readwriter.py", line 1841, in save
    self._jwrite.save(path)
py4j.protocol.Py4JJavaError: An error occurred while calling o557.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/out.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError
Caused by: java.io.UncheckedIOException: upload failed
\tat org.apache.hadoop.fs.s3a
Caused by: software.amazon.awssdk.services.s3.model.S3Exception: The bucket is full (Service: S3, Status Code: 507)
\t... 1 more

=== Streaming Query ===
Identifier: [id = 1, runId = 2]
"""
CAUSE = "Spark says: The bucket is full (Service: S3, Status Code: 507)"
ENDED = "Spark's JVM has ended"


class OfJava:
    """A streaming query whose calls end in an error."""

    isActive = False  # noqa: N815

    def __init__(self, error: BaseException | None, failure: str | None = None) -> None:
        self._error, self._failure, self._names_asked = error, failure, 0

    @property
    def name(self) -> str:
        """Its name, which it can tell once: when it was started, the JVM was there."""
        self._names_asked += 1
        return "q" if self._names_asked == 1 else str(self._called("q"))

    def _called(self, given: Any) -> Any:
        if self._error is not None:
            raise self._error
        return given

    def exception(self) -> str | None:
        return self._called(self._failure)

    def awaitTermination(self, timeout: int | None = None) -> None:  # noqa: N802
        self._called(None)

    def processAllAvailable(self) -> None:  # noqa: N802
        self._called(None)

    def stop(self) -> None:
        self._called(None)

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return self._called([])


class NoMessages:
    """A log in which nothing was said."""

    ending, here = False, None


class Begun:
    """What starts a query of Spark, and the log of what it is asked."""

    in_history = False

    def __init__(self, query: Any) -> None:
        self._query, self.log = query, NoMessages()

    def start(self) -> Any:
        return self._query


def started(query: Any) -> Running:
    return Running(Begun(query), flush=False, available=True)  # type: ignore[arg-type]


def test_of_a_failure_of_java_that_python_has_passed_on_the_innermost_cause_is_told() -> None:
    assert str(as_ours(SINK)) == CAUSE


def test_an_error_of_java_without_a_cause_tells_itself() -> None:
    text = "An error occurred while calling o412.collectToPython.\n: java.lang.IllegalStateException: no disk\n\tat x"
    assert str(as_ours(text)) == "Spark says: no disk"


def test_a_query_that_failed_before_its_first_micro_batch_says_why_in_its_progress() -> None:
    assert CAUSE in progress(OfJava(None, SINK)).none_yet
    assert progress(OfJava(None)).none_yet == "no micro-batch is done yet"


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("Answer is empty"), EOFError()]
)
def test_a_jvm_that_has_ended_is_said_to_whoever_waits_or_asks(error: Exception) -> None:
    running = started(OfJava(error))
    for asked in (running.wait, running.process_all_available, lambda: progress(running)):
        with pytest.raises(SlackwaterError, match=ENDED):
            asked()
    with pytest.raises(SlackwaterError, match=ENDED), one_sentence():
        raise error
    assert repr(running).startswith(f"<Running q, failed: {ENDED}")
    running.stop()

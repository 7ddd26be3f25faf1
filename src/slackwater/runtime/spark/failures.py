"""What went wrong inside Spark, as one sentence.

Invariant: an error of ours that was raised in a worker leaves here as what it was there, with its message and exit
code; of any other failure the innermost cause is reported, and never a stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from slackwater.core.errors import DataError, QueryError, SlackwaterError, UsageError

OURS = {kind.__name__: kind for kind in (DataError, QueryError, SlackwaterError, UsageError)}
_PYTHON = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<message>.*(?:\n {2,}.*)*)$", re.MULTILINE)
_JAVA = re.compile(r"^(?:Caused by: |: )?[\w$.]+(?:Exception|Error): (?P<message>.+)$", re.MULTILINE)


def as_ours(text: str) -> SlackwaterError:
    """The failure that a text of Spark tells of.

    >>> as_ours("Job aborted\\nTraceback (most recent call last):\\n  File x\\nslackwater.core.errors.DataError: bad")
    DataError('bad')
    >>> as_ours("Job aborted\\nTraceback (most recent call last):\\n  File x\\nZeroDivisionError: division by zero\\n")
    SlackwaterError('the query failed on Spark: ZeroDivisionError: division by zero')
    >>> as_ours("org.apache.spark.SparkException: Could not parse Master URL: 'x'\\n\\tat y")
    SlackwaterError("Spark says: Could not parse Master URL: 'x'")
    """
    # Behind the traceback of the callback that asked for the rows comes that of the worker, which is the cause.
    _, found, traceback = text.rpartition("Traceback (most recent call last):")
    if found:
        for error in _PYTHON.finditer(traceback):
            kind, message = error["kind"].rpartition(".")[2], error["message"].strip()
            if kind in OURS:
                return OURS[kind](message)
            if kind == Py4JJavaError.__name__:
                # Which call of Python found it says nothing; the causes come with it.
                text = traceback[error.end() :]
                break
            return SlackwaterError(f"the query failed on Spark: {kind}: {message}")
    causes = [cause["message"].strip() for cause in _JAVA.finditer(text)]
    return SlackwaterError(f"Spark says: {causes[-1] if causes else text.strip().splitlines()[0]}")


class JvmEndedError(SlackwaterError):
    """There is no Spark to ask any more."""


@contextmanager
def one_sentence() -> Iterator[None]:
    """Inside, failures of Spark are raised as errors of ours."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError, EOFError):
        raise JvmEndedError(
            "Spark's JVM has ended, by itself or killed; start the program again: a query goes on from its checkpoint"
        ) from None
    except Py4JJavaError as error:
        raise as_ours(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise as_ours(str(error)) from None

"""Errors a user can act on. Each names the position and the remedy; none shows a stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

LONG_LINE = 1000
"""Characters of a line that are shown of it, around the position."""


class SlackwaterError(Exception):
    """Base of every error this package raises on purpose. `exit_code` is what the command line returns."""

    exit_code = 1


class UsageError(SlackwaterError):
    """A wrong option or argument."""

    exit_code = 2


class QueryError(SlackwaterError):
    """A query that cannot be run, with the position in its text.

    >>> print(QueryError("no column 'w' in stream a; it has ts, v", "SELECT a.w FROM a", 7, 10))
    no column 'w' in stream a; it has ts, v
      line 1: SELECT a.w FROM a
                     ^^^
    """

    exit_code = 2

    def __init__(self, message: str, text: str = "", start: int | None = None, stop: int | None = None) -> None:
        super().__init__(message)
        self.message, self.text, self.start, self.stop = message, text, start, stop

    def __str__(self) -> str:
        if self.start is None or not self.text:
            return self.message
        before = self.text[: self.start]
        number = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1)
        line = self.text.split("\n")[number - 1]
        if len(line) > LONG_LINE:
            begin = max(0, column - LONG_LINE // 4)
            cut = "... " if begin else ""
            line, column = f"{cut}{line[begin : begin + LONG_LINE]} ...", column - begin + len(cut)
        width = max(1, min((self.stop or self.start + 1) - self.start, len(line) - column))
        label = f"  line {number}: "
        return f"{self.message}\n{label}{line}\n{' ' * (len(label) + column)}{'^' * width}"


class DataError(SlackwaterError):
    """Input that cannot be read, or a value no answer can be computed from."""

    exit_code = 3


FAILURES = (SlackwaterError, ArithmeticError)
"""What stops one query and not the others."""


def reason_of(error: BaseException) -> str:
    """Why a query has failed, as one sentence."""
    return str(error) if isinstance(error, SlackwaterError) else f"{type(error).__name__}: {error}"


@contextmanager
def writing(path: object) -> Iterator[None]:
    """What cannot be written is reported with its cause, and not with a number."""
    try:
        yield
    except OSError as error:
        raise SlackwaterError(
            f"{path}: nothing can be written there: {error.strerror or error}; name a folder that can be written to"
        ) from None

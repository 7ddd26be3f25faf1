"""What an operator lets out for one run: words in columns, in timestamp order."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.batch import Words


@dataclass(frozen=True)
class Output:
    """Results: `ts` per line, one array per output column, the clock when each was let out.

    `weight` is None where every line is one result; `results` counts what the lines stand for.
    """

    ts: Words
    columns: tuple[Words, ...]
    clock: Words
    weight: Words | None
    results: int

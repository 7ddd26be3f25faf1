"""What an operator lets out for one run: words in columns, in timestamp order."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.batch import Words


@dataclass(frozen=True)
class Output:
    """Results: `ts` per line and one array per output column.

    `by` is the place in the run of the tuple that let each line out; the length of the run stands for its end.
    `weight` is None where every line is one result; `results` counts what the lines stand for.
    """

    ts: Words
    columns: tuple[Words, ...]
    by: Words
    weight: Words | None
    results: int

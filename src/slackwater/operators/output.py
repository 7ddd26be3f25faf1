"""What an operator emits for one run: words in columns, in timestamp order, unless results leave on arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Floats, Words


@dataclass(frozen=True)
class Output:
    """Results: `ts` per line and one array per output column.

    `by` is the place in the run of the tuple that caused each line; the length of the run stands for its end.
    `multiplicity` is None where every line is one result; `results` counts what the lines stand for.
    """

    ts: Words
    columns: tuple[Words, ...]
    by: Words
    multiplicity: Words | None
    results: int
    at_watermark: bool = False
    """Whether a line leaves when the watermark reaches its event time, by whatever moved it there, as windows do."""
    inclusive: bool = False
    """Whether the watermark has to be beyond the event time of such a line, at which a tuple would still be in it."""
    by_at_latest: bool = False
    """Whether a line leaves before that tuple where the watermark has passed its event time before."""
    clock: Words | None = None
    """The largest clock when each line was emitted, where `by` does not tell it."""
    emit_time: Words | None = None
    change: Words | None = None
    """What each line does to its key (`core.emitting`); None: all insert."""
    version: Words | None = None
    """How many lines of its key have left before; None: none."""
    amends: bool = False
    """Whether its lines come before or after the answer itself: rows of open windows, or corrections. They are no
    results of the first answer, and meters hear of corrections alone, apart from it."""
    expected_error: Floats | None = None
    """Of rows of open windows, how wrong they are expected to be; NaN where nothing is known."""

    def only(self, lines: Words) -> Output:
        """Some lines, each of which is one result."""
        assert self.multiplicity is None, "a line may stand for several results"
        return replace(
            self,
            ts=self.ts[lines],
            columns=tuple(column[lines] for column in self.columns),
            by=self.by[lines],
            results=len(lines),
            clock=None if self.clock is None else self.clock[lines],
            emit_time=None if self.emit_time is None else self.emit_time[lines],
            expected_error=None if self.expected_error is None else self.expected_error[lines],
        )


def joined(outputs: Sequence[Output]) -> Output:
    """Outputs of one run, each line one result, as one."""
    if len(outputs) == 1:
        return outputs[0]
    columns = zip(*(output.columns for output in outputs), strict=True)
    return Output(
        np.concatenate([output.ts for output in outputs]),
        tuple(np.concatenate(column) for column in columns),
        np.concatenate([output.by for output in outputs]),
        None,
        sum(output.results for output in outputs),
        outputs[0].at_watermark,
        outputs[0].inclusive,
        outputs[0].by_at_latest,
    )

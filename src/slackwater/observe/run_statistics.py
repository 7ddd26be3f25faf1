"""What a run is measured by while it goes on: slack, waiting, memory, the slowest stream, and what is foreseen.

Invariant: it polls nothing; its report covers exactly what was noted here, whichever runtime did so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slackwater.core.memory import Memory
from slackwater.core.outlook import Outlook
from slackwater.core.state import Observation
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.foreseen import Foretelling
from slackwater.observe.memory_use import MemoryUse
from slackwater.observe.report import LatencyUse, Report, SlackUse
from slackwater.observe.waiting import SlowestUse
from slackwater.plan.physical import PhysicalPlan


class RunStatistics:
    """The measures of one run of a plan, which begins with this slack."""

    def __init__(self, plan: PhysicalPlan, slack: int) -> None:
        self._plan = plan
        self.slack, self.latency = SlackUse(slack), LatencyUse()
        self.memory, self.slowest = MemoryUse(), SlowestUse()
        self._foretelling = Foretelling()

    def retarget(self, plan: PhysicalPlan) -> None:
        """Another quality is asked for from now on."""
        self._plan = plan

    def begin(self, ts: int) -> None:
        """The first tuple has this event time; later calls do nothing."""
        self.slack.begin(ts)
        self.memory.begin(ts)

    def note_clocks(self, slack_changes: Sequence[tuple[int, int]], clocks: Sequence[int]) -> None:
        """How slack has changed, as (largest clock, slack from there on), and where the clocks stand now."""
        self.slack.note(slack_changes, max(clocks))
        self.slowest.note(clocks)

    def note_memory(self, memory: Callable[[], Memory], clock: int, arrivals: int) -> None:
        """Measure what is in the windows, where enough has come since the last time."""
        if self.memory.due(arrivals):
            self.memory.note(memory(), clock, arrivals)

    def news(self, outlook: Outlook | None) -> str | None:
        """What is to be said of the target, given whether it can be met as it looks now."""
        return self._foretelling.news(self._plan.quality, outlook)

    def report(
        self,
        *,
        controller: str,
        runtime: str,
        observation: Observation,
        unreadable: dict[str, int],
        seconds: float,
        in_epochs: bool,
        interrupted: bool = False,
        shards: int | None = None,
        wrong_clocks: tuple[WrongClock, ...] = (),
    ) -> Report:
        """What the run amounts to so far."""
        return Report(
            quality=str(self._plan.quality),
            controller=controller,
            runtime=runtime,
            observation=observation,
            unreadable=unreadable,
            slack=self.slack,
            latency=self.latency,
            seconds=seconds,
            interrupted=interrupted,
            aliases=tuple(one.stream.alias for one in self._plan.inputs),
            memory=self.memory,
            shards=shards,
            slowest=self.slowest,
            target=self._plan.quality,
            options=self._plan.options,
            in_epochs=in_epochs,
            emit=self._plan.emit,
            wrong_clocks=wrong_clocks,
        )

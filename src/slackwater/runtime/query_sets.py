"""From plans of queries to the kernel of a set that every runtime hosts.

Invariant: a query of a set is built by the function that builds it alone (`kernels.query_for`); only the release in
front of it is another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slackwater.core.quality import Quality
from slackwater.core.state import StateUpdate
from slackwater.disorder.cutting import Epochs
from slackwater.operators.aggregate.shared.store import PaneReader
from slackwater.operators.query_kernel import MakeRelease, QueryKernel
from slackwater.operators.query_set.kernel import QuerySet
from slackwater.operators.query_set.member import Build
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan
from slackwater.runtime.kernels import query_for
from slackwater.sources.codebook import Codebook


class QuerySetKernel(QuerySet):
    """The kernel of planned queries: `plan` has the domain of each of them now.

    `remembers`: see `QuerySet`; without it `set_target` is done by restoring another kernel.
    """

    def __init__(
        self,
        plan: QuerySetPlan,
        epochs: Epochs,
        codebook: Codebook,
        remembers: bool = True,
    ) -> None:
        super().__init__(epochs, remembers)
        self.plan, self._codebook = plan, codebook
        for name in plan.queries:
            self._start(name)

    def _start(self, name: str) -> None:
        place = self.plan.places[name]
        self.add_built(name, self.plan.domains[place.domain], place, self._builder(name))

    def _builder(self, name: str) -> Build:
        plan = self.plan.queries[name]

        def build(make_release: MakeRelease, panes: PaneReader | None = None) -> QueryKernel:
            return query_for(plan, self._epochs, self._codebook, make_release, panes)

        return build

    def add(self, name: str, plan: PhysicalPlan) -> None:
        """A query that begins now. Its feeder reads the new `plan` from now on."""
        self.plan = self.plan.with_query(name, plan)
        self._start(name)

    def drop(self, name: str) -> None:
        super().drop(name)
        self.plan = self.plan.without(name)

    def set_target(self, name: str, quality: Quality, entries: Iterable[StateUpdate] | None = None) -> None:
        """Ask for another quality from the next epoch on, as if restarted with it; `entries` as for `rebuild`."""
        self._find(name)
        self.plan = self.plan.with_plan(name, replace(self.plan.queries[name], quality=quality))
        self.rebuild(name, self._builder(name), entries)

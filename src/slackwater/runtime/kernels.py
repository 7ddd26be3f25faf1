"""From physical plans to the kernels that every runtime hosts: of a query, and of a set.

Invariant: a query of a set is built by the function that builds it alone; only the release in front of it is another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slackwater.core.errors import UsageError
from slackwater.core.quality import Quality
from slackwater.core.state import StateUpdate
from slackwater.disorder.controllers import SlackController
from slackwater.disorder.release.release import Release
from slackwater.expressions.columnar import Coding
from slackwater.operators.aggregate.shared.store import PaneReader
from slackwater.operators.composed.registry import controller_of
from slackwater.operators.contract import BuildContext, Operator, OperatorSpec
from slackwater.operators.join.algorithms import ORDERINGS
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.operators.query_kernel import KernelTerms, MakeRelease, QueryKernel
from slackwater.operators.query_set.kernel import QuerySet
from slackwater.operators.query_set.member import Build
from slackwater.plan.emission import in_epochs
from slackwater.plan.ordering import check_in_epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan
from slackwater.sources.codebook import Codebook


def kernel_for(plan: PhysicalPlan, epochs: Epochs, codebook: Codebook) -> Pipeline:
    """A fresh kernel for a plan, behind a clock guard; text literals get their codes from the codebook."""
    spec, operator, controller = _built(plan, epochs, codebook)
    return Pipeline(spec, operator, controller, _terms(plan, epochs), plan.options.max_ahead)


def query_for(
    plan: PhysicalPlan,
    epochs: Epochs,
    codebook: Codebook,
    make_release: MakeRelease = Release,
    panes: PaneReader | None = None,
) -> QueryKernel:
    """The same without a clock guard, perhaps behind a release that its caller makes; an aggregate may read panes that
    are kept for several."""
    spec, operator, controller = _built(plan, epochs, codebook, panes)
    return QueryKernel(spec, operator, controller, _terms(plan, epochs), make_release)


def _built(
    plan: PhysicalPlan, epochs: Epochs, codebook: Codebook, panes: PaneReader | None = None
) -> tuple[OperatorSpec, Operator, SlackController]:
    if plan.options.idle_after is not None and epochs.each_tuple:
        raise UsageError(
            "option idle_after is for epochs, in which time moves with all streams together: say --epoch '1 s', or"
            " epochs=slackwater.Epochs(span=1_000_000); tuple by tuple, idle_timeout does it"
        )
    if not epochs.each_tuple:
        check_in_epochs(plan.options)
        plan = in_epochs(plan)
    spec = plan.operator
    build = ORDERINGS.find(plan.ordering.strategy)
    assert build is not None, "a plan has one of these strategies"
    operator = build(spec, BuildContext(Coding(codebook), codebook.table, panes), plan.ordering)
    return spec, operator, controller_of(spec, operator, plan.quality, plan.options, plan.windows)


def _terms(plan: PhysicalPlan, epochs: Epochs) -> KernelTerms:
    """What a plan says of silence, parts, weights, its target and how far back one looks."""
    options = plan.options
    return KernelTerms(
        epochs, options.idle_timeout, options.idle_after, options.max_behind, options.max_ahead, plan.partition_slots,
        plan.weights, plan.target, plan.learning_key, options.retention is None,
    )  # fmt: skip


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

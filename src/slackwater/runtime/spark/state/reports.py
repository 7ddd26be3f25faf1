"""What the shards of all tasks have observed, passed on from one micro-batch to the next, so that all shards of a query
choose the same slack (Same-K policy, 004 Theorem 4.1).

Each task writes what its shards report beside the state of the micro-batch, and every task of the next one reads what
all tasks have written. So nobody waits for anybody within a micro-batch, and the driver has no part in it.

Invariant: the reports of micro-batch N are whole before the state of N is, and N + 1 hears all of them, whatever runs
again. What a query reports that takes no part in a micro-batch is passed on until it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from slackwater.core.state import StateUpdate, decode_array, encode_array
from slackwater.disorder.meters import Report
from slackwater.runtime.spark.state.page_files import REPORTS, file_name
from slackwater.runtime.spark.state.pages import Page, decoded, encoded
from slackwater.runtime.spark.state.root import TaskLog
from slackwater.runtime.spark.store import Store, sealed, unsealed

READING_AT_ONCE = 8


class ReportOf(NamedTuple):
    """The sender of a report: the label of a shard, the key of its query, and what its controller has learned for."""

    label: int
    query: str
    learning_key: str


class Reports:
    """The reports of one micro-batch, as one task reads and writes them; `wanted` says whether any query has some."""

    def __init__(self, log: TaskLog, wanted: bool, above: bool = False) -> None:
        """`above`: those of a second stage are heard as well."""
        self._log, self._wanted, self._above = log, wanted, above
        self._heard: dict[ReportOf, Report] | None = None
        self._made: dict[ReportOf, Report] = {}

    def heard(self, query: str, learning_key: str) -> list[Report]:
        """What all shards of a query have reported last, in the order of their labels."""
        if not self._wanted:
            return []
        known = self._of_last()
        return [known[of] for of in sorted(known) if (of.query, of.learning_key) == (query, learning_key)]

    def pass_on(self, label: int, query: str) -> None:
        """A query takes no part in this micro-batch: what this shard reported last is heard when it does."""
        if self._wanted:
            self._made |= {of: one for of, one in self._of_last().items() if of[:2] == (label, query)}

    def note(self, of: ReportOf, report: Report) -> None:
        """What a shard reports of this micro-batch."""
        if report:
            self._made[of] = report

    def write(self) -> None:
        """Publish the reports of this task; those before the last micro-batch are removed."""
        if not (self._wanted and self._log.lasts):
            return
        now, store = self._log.micro_batch, self._log.own_store()
        entries = tuple(_entries(self._made))
        store.write(file_name(now, REPORTS), sealed(encoded(Page("", entries, (now,) * len(entries)))))
        if not store.far:
            # On a far store `PageFiles` tidies up now and then.
            store.remove(file_name(now - 2, REPORTS))

    def _of_last(self) -> dict[ReportOf, Report]:
        if self._heard is None:
            self._heard = {}
            before = self._log.micro_batch - 1
            stores = self._log.stores_before(self._above) if before >= 0 else []
            with ThreadPoolExecutor(READING_AT_ONCE) as pool:
                # Threads cost more than to read files that are near.
                read = pool.map if self._log.own_store().far else map
                for found in read(lambda one: _read(one, before), stores):
                    self._heard |= found
        return self._heard


def _read(store: Store, micro_batch: int) -> dict[ReportOf, Report]:
    """What one task has written; nothing where it had nothing to report."""
    name = file_name(micro_batch, REPORTS)
    content = store.read(name)
    if content is None:
        return {}
    found: dict[ReportOf, dict[str, object]] = {}
    for entry in decoded(unsealed(content, store.path(name))).entries:
        assert entry.value is not None
        label, query, learning_key = entry.namespace.split("/", 2)
        found.setdefault(ReportOf(int(label), query, learning_key), {})[entry.key] = decode_array(entry.value)
    return found  # type: ignore[return-value]


def _entries(made: dict[ReportOf, Report]) -> Iterator[StateUpdate]:
    for of, report in made.items():
        for name, array in report.items():
            yield StateUpdate(f"{of.label}/{of.query}/{of.learning_key}", name, encode_array(array))

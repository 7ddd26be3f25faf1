"""Where state is: the folder of queries, as far as it is known before a task runs, and in it the log of each task.

A query that we start has its folder in its checkpoint. A DataFrame that somebody else starts does not know its
checkpoint, but Spark tells every task which streaming query it belongs to, and that stays the same over restarts.

A folder has a folder for each number of tasks that queries have run with, and there one for each task. With another
number of tasks the first micro-batch reads the logs of all tasks before, and each task writes what its own shards have
as the first page of a log of its own.

Invariant: what counts after a micro-batch is in the folder for the number of tasks that it ran with. One that is run
again with another number leaves two folders with the same state.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from slackwater.core.errors import SlackwaterError, writing
from slackwater.core.state import StateUpdate
from slackwater.runtime.spark.state.page_files import NOBODY, Writer, file_name
from slackwater.runtime.spark.state.pages import PageStore
from slackwater.runtime.spark.store import At, Store, inside, store_at
from slackwater.runtime.spark.workers import QUERY, task_property

ABOVE = "above"
"""The folder of the state of a second stage, in that of the first."""


@dataclass(frozen=True)
class StateRoot:
    """A folder, or one in it for each streaming query."""

    folder: At
    within: str | None = None
    """None: the folder itself; else this name in the folder of the streaming query that runs."""
    made: bool = True
    """Whether this machine makes the folder, so that a worker which lacks it does not share it."""

    def above(self) -> StateRoot:
        if self.within is not None:
            return replace(self, within=f"{self.within}/{ABOVE}")
        return replace(self, folder=inside(self.folder, ABOVE))

    def make(self) -> None:
        """Make the folder, where it is one of this machine."""
        if self.made and isinstance(self.folder, str):
            with writing(self.folder):
                os.makedirs(self.folder, exist_ok=True)

    def of_task(self) -> At:
        """The folder of the streaming query that this task belongs to."""
        if self.made and isinstance(self.folder, str) and not os.path.isdir(self.folder):
            raise SlackwaterError(
                f"{self.folder} is not there on {socket.gethostname()}, where a worker of this query runs; name a"
                " folder that all machines share"
            )
        if self.within is None:
            return self.folder
        query = task_property(QUERY)
        if query is None:
            raise SlackwaterError("Spark does not say which streaming query this is; start it with slackwater.start")
        return inside(self.folder, f"{query}/{self.within}")


class Share(NamedTuple):
    """Which of the tasks that run at the same time this is."""

    task: int
    tasks: int

    @property
    def folder(self) -> str:
        return f"{self.tasks}/{self.task}"


ONE_TASK = Share(0, 1)


class TaskLog:
    """The log of one task, as one micro-batch finds it; without a folder there is one micro-batch only, and no log."""

    def __init__(self, folder: At | None, share: Share, micro_batch: int, writer: Writer = NOBODY) -> None:
        self._folder, self._share, self.micro_batch, self._writer = folder, share, micro_batch, writer
        self._before: int | None = None
        self.pages = self._opened(is_new=False)

    def _opened(self, is_new: bool) -> PageStore:
        return PageStore(self.own_store(), self.micro_batch, self._writer, is_new)

    def own_store(self) -> Store:
        return store_at(self._folder or "", self._share.folder)

    @property
    def lasts(self) -> bool:
        """Whether another micro-batch may follow."""
        return self._folder is not None

    def stores_before(self, above: bool = False) -> list[Store]:
        """The files of all tasks that ran the last micro-batch; with `above`, also of those of a second stage."""
        if self._folder is None:
            return []
        tasks = self._before or self._share.tasks
        folders = [self._folder, inside(self._folder, ABOVE)][: 1 + above]
        return [store_at(folder, Share(task, tasks).folder) for folder in folders for task in range(tasks)]

    def look_back(self) -> None:
        """Find out with how many tasks the last micro-batch ran."""
        if self._folder is None or self.micro_batch == 0:
            return
        all_tasks, last = store_at(self._folder), file_name(self.micro_batch - 1)
        others = [int(name) for name in all_tasks.names() if name.isdecimal() and int(name) != self._share.tasks]
        if all_tasks.exists(f"{self._share.folder}/{last}"):
            mine = (Share(task, self._share.tasks).folder for task in range(self._share.tasks))
            if others and self._share.task == 0 and all(all_tasks.exists(f"{one}/{last}") for one in mine):
                _remove(self._folder, others)
            return
        self._before = next((one for one in others if all_tasks.exists(f"{one}/0/{last}")), None)
        if self._before is not None:
            self.pages = self._opened(is_new=True)

    def inherited(self, labels: Container[int]) -> list[StateUpdate]:
        """The entries that these shards have in the logs of other tasks; their names begin with the shard."""
        if self._before is None or self._folder is None:
            return []
        found: list[StateUpdate] = []
        for task in range(self._before):
            store = store_at(self._folder, Share(task, self._before).folder)
            entries = PageStore(store, self.micro_batch, self._writer).everything()
            found += (one for one in entries if int(one.namespace.partition("/")[0]) in labels)
        return found

    def beside(self) -> Iterator[StateUpdate]:
        """The entries that other queries of the same streaming query have, in the same task after the same micro-batch:
        the folder of a query is named by what its state depends on."""
        if self._folder is None:
            return
        whole = str(self._folder)
        above, _, mine = whole.rpartition("/")
        queries = above if isinstance(self._folder, str) else replace(self._folder, uri=above)
        folders = store_at(queries)
        for name in folders.names():
            if name != mine and folders.exists(f"{name}/{self._share.folder}/{file_name(self.micro_batch - 1)}"):
                store = store_at(inside(queries, name), self._share.folder)
                yield from PageStore(store, self.micro_batch).everything()


def _remove(folder: At, layouts: Iterable[int]) -> None:
    """Drop the logs of other numbers of tasks, which no micro-batch can need any more."""
    for tasks in layouts:
        for task in range(tasks):
            store = store_at(folder, Share(task, tasks).folder)
            for name in store.names():
                store.remove(name)

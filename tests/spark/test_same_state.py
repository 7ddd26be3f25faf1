"""What a task writes follows from its micro-batches alone: whether its worker has kept the shards, or read them anew.

A page of either kind of worker may be the one that stays, so both must say the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.runtime.spark.state import host
from slackwater.runtime.spark.state.page_files import Writer
from slackwater.runtime.spark.state.root import Share, TaskLog
from slackwater.runtime.spark.store import store_at
from tests.spark import test_same_slack as queries
from tests.spark.in_process import TASKS, cut_for, hosted_alone, micro_batch, one_worker, packed, planned, played_member

SHARDS = 3
WITH = {
    "keyed": queries.KEYED,
    "near": queries.NEAR,
    "chain": queries.CHAIN,
    "sum": queries.SUM,
    "above": queries.ABOVE,
    "sparse": "SELECT a.v AS av, b.v AS bv FROM a [RANGE 2 MS], b [RANGE 2 MS] WHERE a.key = b.key WITH NO WAIT",
    "held": "SELECT DSTREAM a.v, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH NO WAIT",
    "last": "SELECT v FROM a [ROWS 3] WITH DELAY 100 MS",
}
ALIKE = ("operator/pane", "/release/", "rows_met_", "tally_old_settled")
"""What has the same groups, tuples or rows in another order; and what is noted by whoever looks at the progress."""


def written(query: str, folder: Path) -> list[dict[tuple[str, str], bytes | None]]:
    """All entries of all tasks after each micro-batch."""
    tables = queries.streams(7)
    one = played_member(planned(query, tables), SHARDS)
    hosted = hosted_alone(one)
    read = {packing.plan.stream.source for packing in one.packings}
    found = []
    for number in range(8):
        # Now and then nothing comes: then windows run empty.
        length = 0 if number in (3, 6) else queries.LENGTH
        pieces = {name: table.slice(number * queries.LENGTH, length) for name, table in tables.items() if name in read}
        list(micro_batch(hosted, cut_for(SHARDS), packed([one], pieces), str(folder), number))
        writer = Writer(host.run_of_task(), hosted.name)
        log = (TaskLog(str(folder), Share(task, TASKS), number + 1, writer) for task in range(TASKS))
        found.append({(one.namespace, one.key): one.value for pages in log for one in pages.pages.everything()})
    assert store_at(str(folder)).names()
    return found


@pytest.mark.parametrize("name", WITH)
def test_a_worker_that_kept_its_shards_writes_what_one_writes_that_read_them_anew(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew = written(WITH[name], tmp_path / "anew")
    one_worker(monkeypatch)
    kept = written(WITH[name], tmp_path / "kept")
    for number, (one, other) in enumerate(zip(anew, kept, strict=True)):
        assert one.keys() == other.keys(), number
        differ = [at for at in one if one[at] != other[at] and not any(name in "/".join(at) for name in ALIKE)]
        assert not differ, (number, sorted(differ)[:5])

"""Which target and which emission every form of a query has, and where it runs: `python -m tests.forms` writes
docs/forms.md.

The planner is asked for every cell, with one query for a form. What it plans is asked of the kernels, tuple by tuple
and in epochs, of the shards of Spark, and of sets.

Invariant: nothing of the page is said here; a cell is offered where nothing refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.core.errors import SlackwaterError
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.kernels import kernel_for
from slackwater.runtime.spark.members import terms_of
from slackwater.runtime.spark.query import check_plan
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.codebook import Codebook
from slackwater.sources.lookups import lookup, with_lookups

PAGE = Path(__file__).parent.parent / "docs" / "forms.md"
W = "[RANGE 2 SECONDS]"
PAIR = f"SELECT a.v AS av, b.v AS bv FROM a {W}, b {W} WHERE a.k = b.k"
SIDES = "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 SECONDS"
LEFT = f"SELECT a.v AS av, b.v AS bv FROM a LEFT JOIN b ON {SIDES}"
COUNT = "SELECT k, COUNT(*) AS n FROM a {} GROUP BY k"
FORMS = {
    "join": PAIR,
    "join of three streams": f"SELECT a.v, c.v AS cv FROM a {W}, b {W}, c {W} WHERE a.k = b.k AND b.k = c.k",
    "join by a band": f"SELECT a.v AS av, b.v AS bv FROM a {W}, b {W} WHERE abs(a.v - b.v) < 2",
    "join, windows of rows": "SELECT a.v AS av, b.v AS bv FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k",
    "join, windows by rates": "SELECT a.v AS av, b.v AS bv FROM a [RATE 2 SECONDS], b [RATE 2 SECONDS] MATCH TIME"
    " WITHIN 1 SECOND WHERE a.k = b.k",
    "`LEFT`, `RIGHT` join": LEFT,
    "`FULL` join": f"SELECT a.v AS av, b.v AS bv FROM a {W} FULL JOIN b {W} ON a.k = b.k",
    "`LEFT` join of three streams": f"{LEFT} LEFT JOIN c ON {SIDES.replace('b.', 'c.')}",
    "`SEMI`, `EXISTS`": f"SELECT a.v FROM a LEFT SEMI JOIN b ON {SIDES}",
    "`ANTI`, `NOT EXISTS`": f"SELECT a.v FROM a LEFT ANTI JOIN b ON {SIDES}",
    "`ASOF` join": "SELECT a.v AS av, b.v AS bv FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k"
    " WITHIN 5 SECONDS",
    "join with a static relation": "SELECT a.v, r.name FROM a JOIN r ON a.k = r.k",
    "aggregate, tumbling": COUNT.format(W),
    "aggregate, sliding": COUNT.format("[RANGE 2 SECONDS SLIDE 1 SECOND]"),
    "aggregate, sessions": COUNT.format("[SESSION 1 SECOND]"),
    "aggregate, `CUMULATE`": COUNT.format("[RANGE 4 SECONDS CUMULATE 1 SECOND]"),
    "aggregate, windows of rows": COUNT.format("[ROWS 5]"),
    "aggregate, landmarks": "SELECT COUNT(*) AS n FROM a [START WHEN v = 1 END WHEN v = 3]",
    "aggregate without GROUP BY": f"SELECT SUM(v) AS total FROM a {W}",
    "median": f"SELECT k, MEDIAN(v) AS m FROM a {W} GROUP BY k",
    "`DISTINCT`": f"SELECT DISTINCT k, v FROM a {W}",
    "first rows (`LIMIT`, `QUALIFY`)": f"SELECT k, SUM(v) AS total FROM a {W} GROUP BY k ORDER BY total DESC LIMIT 2",
    "aggregate above a join": f"SELECT j.av, COUNT(*) AS n FROM ({PAIR}) j {W} GROUP BY j.av",
    "aggregate above a `LEFT` join": f"SELECT j.av, COUNT(*) AS n FROM ({LEFT}) j {W} GROUP BY j.av",
    "join of aggregates": f"SELECT p.n, q.n AS m FROM ({COUNT.format(W)}) p {W}, (SELECT k, COUNT(*) AS n FROM b {W}"
    f" GROUP BY k) q {W} WHERE p.k = q.k",
    "`UNION ALL`": "SELECT k, v FROM a UNION ALL SELECT k, v FROM b",
}
TARGETS = {
    "C": "COMPLETE",
    "N": "NO WAIT",
    "D": "DELAY 1 SECOND",
    "R": "RECALL 0.9 OVER 2 SECONDS",
    "P": "RECALL 0.9 PRECISION 0.9 OVER 2 SECONDS",
    "E": "ERROR 10%",
    "S": "ERROR 10% ESTIMATED",
}
EMISSIONS = {
    "`IN ORDER`": "",
    "`ON ARRIVAL`": "EMIT ON ARRIVAL",
    "`WITH CORRECTIONS`": "EMIT IN ORDER WITH CORRECTIONS FOR 10 SECONDS",
    "`EARLY`": "EMIT EARLY EVERY 1 SECOND",
}
STREAM = pa.schema([(name, pa.int64()) for name in ("ts", "k", "v", "arrival")])
RELATION = pa.table({"k": [0, 1, 2], "name": ["x", "y", "z"]})


@dataclass(frozen=True)
class Cell:
    """One form with a target and an emission, as it is planned."""

    form: str
    target: str
    emission: str
    text: str
    physical: PhysicalPlan

    @property
    def by_tuples(self) -> bool:
        """Whether it runs tuple by tuple."""
        return builds(self.physical, Epochs(each_tuple=True))

    @property
    def on_spark(self) -> str:
        """How it is cut on Spark."""
        try:
            check_plan(self.physical, timed=False)
        except SlackwaterError:
            return "no"
        cut = self.physical.partitioning
        if cut.above is not None:
            return "in two steps"
        if cut.keys is None:
            return "in one shard"
        return "by place" if cut.axes else "by rows" if cut.rates else "by key"

    @property
    def in_sets(self) -> str:
        """How it is hosted beside other queries."""
        return "alone" if terms_of(self.physical) is None else "together"


def builds(physical: PhysicalPlan, epochs: Epochs) -> bool:
    """Whether there is a kernel for a plan."""
    try:
        kernel_for(physical, epochs, Codebook())
    except SlackwaterError:
        return False
    return True


def streams_of(rows: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Streams and the static relation."""
    return {**rows, "r": lookup(RELATION)}


def text_of(form: str, target: str, emission: str) -> str:
    """The query of a cell."""
    return f"{FORMS[form]} {EMISSIONS[emission]} WITH {TARGETS[target]}"


@cache
def cells() -> tuple[Cell, ...]:
    """All that is offered."""
    return tuple(one for form in FORMS for one in _of_form(form))


def _of_form(form: str) -> Iterator[Cell]:
    empty = streams_of(dict.fromkeys("abc", STREAM.empty_table()))
    for target in TARGETS:
        for emission in EMISSIONS:
            text = text_of(form, target, emission)
            try:
                bare, tables = with_lookups(text, empty)
                physical = plan(bind_to_tables(bare, tables, "ts").query)
            except SlackwaterError:
                if (target, emission) == ("C", "`IN ORDER`"):
                    raise
                continue
            if builds(physical, Epochs()):
                yield Cell(form, target, emission, text, physical)


def offered(form: str, emission: str) -> str:
    """The targets of a form with an emission."""
    return " ".join(one.target for one in cells() if (one.form, one.emission) == (form, emission)) or "–"


def told(found: Mapping[str, list[Cell]], mine: list[Cell]) -> str:
    """What most cells have, and which have something else: an emission, or some targets of it."""
    usual = max(found, key=lambda what: len(found[what]))
    others = [
        f"{what}: {', '.join(_some(emission, some, mine) for emission in EMISSIONS if by_emission(emission, some))}"
        for what, some in found.items()
        if what != usual
    ]
    return "; ".join([usual, *others])


def by_emission(emission: str, some: list[Cell]) -> list[Cell]:
    """Those of some cells that have an emission."""
    return [one for one in some if one.emission == emission]


def _some(emission: str, some: list[Cell], mine: list[Cell]) -> str:
    those = by_emission(emission, some)
    is_whole = len(those) == len(by_emission(emission, mine))
    return emission if is_whole else " ".join([emission, *(one.target for one in those)])


def by(read: Any, mine: list[Cell]) -> dict[str, list[Cell]]:
    """Cells by what is read of them."""
    found: dict[str, list[Cell]] = {}
    for one in mine:
        found.setdefault(read(one), []).append(one)
    return found


def page() -> str:
    """The page as it should be."""
    lines = [HEAD, "| form | " + " | ".join(EMISSIONS) + " |", "|---|" + "---|" * len(EMISSIONS)]
    lines += [f"| {form} | " + " | ".join(offered(form, one) for one in EMISSIONS) + " |" for form in FORMS]
    lines += [RUNTIMES, "| form | tuple by tuple | in epochs | on Spark | in a set |", "|---|---|---|---|---|"]
    for form in FORMS:
        mine = [one for one in cells() if one.form == form]
        tuples = told(by(lambda one: "yes" if one.by_tuples else "no", mine), mine)
        spark, sets = (told(by(read, mine), mine) for read in (lambda one: one.on_spark, lambda one: one.in_sets))
        lines.append(f"| {form} | {tuples} | yes | {spark} | {sets} |")
    return "\n".join(lines)


HEAD = """# Forms of queries

Which form of a query has which target and which emission, and where it runs. This page is written by
`python -m tests.forms`, which asks the planner for every cell; a test runs the cells, locally and in shards.

**Targets**: C `COMPLETE`, N `NO WAIT`, D `DELAY`, R `RECALL`, P `RECALL ... PRECISION`, E `ERROR`, S `ERROR ...
ESTIMATED`. What is not offered is refused in a sentence that names the remedy. [language.md](language.md) says what
each means.
"""
RUNTIMES = """
## Where they run

*By key*, *by place* and *by rows* are how Spark cuts a query into shards; *in two steps* its last operator has shards
of its own ([how](spark.md#queries-in-two-steps)). Queries of a set read each source once. Those that are hosted
*together* share what is held, too. Where some emissions, or some targets of one, differ from the rest, they stand
behind a colon.
"""


if __name__ == "__main__":
    PAGE.write_text(page() + "\n", encoding="utf-8")

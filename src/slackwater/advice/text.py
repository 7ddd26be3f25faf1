"""Advice in words: a table of slacks, the least slack for each target, and what to write.

Invariant: every number is one of the advice, and a duration that is rounded says so. 100 columns are enough, and what
is to be copied is whole on a line of its own, however narrow the terminal.
"""

from __future__ import annotations

from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.advice.answer import (
    ENOUGH,
    TARGETS,
    Advice,
    Curve,
    EmissionCost,
    clause,
    emission_costs,
    watermark_lines,
)
from slackwater.core.quality import default_cap
from slackwater.core.time import LONGEST, MINUTE, readable

WIDTH = 100


def as_text(advice: Advice) -> str:
    """Everything, for a terminal."""
    console = Console(file=StringIO(), width=WIDTH, color_system=None, legacy_windows=False)
    print_whole(rendered(advice), console)
    file = console.file
    assert isinstance(file, StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def as_html(advice: Advice) -> str:
    """The same, for a notebook."""
    console = Console(file=StringIO(), width=WIDTH, record=True)
    print_whole(rendered(advice), console)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height:1.2">{code}</pre>')


def print_whole(parts: RenderableType, console: Console) -> None:
    """Print what is rendered, and cut no line that is to be copied."""
    console.print(parts, crop=False)


def rendered(advice: Advice) -> RenderableType:
    """Everything, as tables and sentences."""
    parts: list[RenderableType] = [Text(_heading(advice)), "", _points(advice), "", _least(advice)]
    if len(advice.by_hour) > 1:
        parts += ["", _hours(advice)]
    parts += ["", *_what_to_write(advice)]
    emissions = emission_costs(advice)
    if len(emissions) > 1:
        parts += ["", _emissions(advice, emissions)]
    if advice.for_spark is not None:
        parts += ["", *_spark(advice)]
    if advice.rounds:
        parts += ["", Text("Delays to write that are longer than 100 s are rounded up, by less than 1 %.")]
    parts += [Text(f"note: {note}") for note in advice.notes]
    return Group(*parts)


def kept_name(advice: Advice) -> str:
    """What is kept, in words."""
    return "recall" if advice.bound is None else f"error <= {advice.bound:g}"


def _what_to_write(advice: Advice) -> list[RenderableType]:
    """Each clause on a line of its own, to be copied, and what it does."""
    slack = advice.curve.least(ENOUGH)
    if not advice.curve.of:
        return [Text("There is nothing to lose: the query has no result over these streams.")]
    share = f"{100 * ENOUGH:g} %"
    what = "of the results" if advice.bound is None else f"of the windows within {advice.bound:g} of the truth"
    if slack is None:
        return [Text(f"No slack keeps {share} {what}.")]
    if slack == 0:
        kept = f"{100 * advice.curve.at(0):.4g} % {what}"
        return [_line("WITH NO WAIT"), Text(f"  keeps {kept}: nothing needs to be waited for.")]
    period = MINUTE if advice.bound is None else 0
    target = (
        "RECALL 0.99 OVER 1 MINUTE" if advice.bound is None else f"ERROR {advice.bound:g} CONFIDENCE 0.99"
    )  # fmt: skip
    delay = clause(slack)
    capped = f" AT MOST {delay}" if slack > default_cap(period, LONGEST) else ""
    worst = _to_blame(advice, slack)
    through = f", mostly because of stream {worst}" if worst else ""
    return [
        _line(f"WITH DELAY {delay}"),
        Text(f"  keeps {share} {what} of these streams{through}."),
        _line(f"WITH {target}{capped}"),
        Text("  finds the least slack as delays change, and waits less where less will do."),
    ]


def _line(text: str) -> Text:
    """What is to be copied."""
    return Text(text, no_wrap=True, overflow="ignore")


def _to_blame(advice: Advice, slack: int) -> str | None:
    """The stream that asks for more than half of a slack alone, if no other does."""
    asking = [name for name, one in advice.by_stream.items() if (one.least(ENOUGH) or 0) * 2 > slack]
    return asking[0] if len(asking) == 1 < len(advice.by_stream) else None


def _heading(advice: Advice) -> str:
    rows = "true results" if advice.bound is None else "windows and groups"
    rejected = f", {advice.rejected:,} rejected" if advice.rejected else ""
    how = advice.epochs if advice.epochs == "tuple by tuple" else f"in epochs of {advice.epochs}"
    return f"{advice.tuples:,} tuples{rejected}, {advice.curve.of:,} {rows}, released {how}"


def _points(advice: Advice) -> Table:
    table = Table(box=None, pad_edge=False)
    kept = kept_name(advice)
    several = len(advice.by_stream) > 1
    state = "state" if advice.bound is None else "open rows"
    headings = ["slack", kept, "latency", "held", state, "at most"]
    if advice.bound is not None:
        headings[2:2] = ["mean error", "never"]
    for heading in [*headings, *(f"lost by {name}" for name in advice.by_stream if several)]:
        table.add_column(heading, justify="right")
    for one in advice.points:
        waiting = one.waiting
        cells = [readable(one.slack), share_of(one.kept)]
        if advice.bound is not None:
            cells += [f"{one.mean_error or 0:.3g}", share_of(one.never or 0)]
        latency = "the end" if waiting.latency is None else readable(waiting.latency)
        cells += [latency, f"{waiting.held:,.0f}", f"{waiting.kept:,.0f}", f"{waiting.most_kept:,}"]
        cells += [share_of(lost) for lost in one.lost_by_stream.values() if several]
        table.add_row(*cells)
    return table


def _least(advice: Advice) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("least slack for")
    for target in TARGETS:
        table.add_column(f"{target:g}", justify="right")
    lines = {kept_name(advice): advice.curve}
    if advice.bound is not None:
        lines = {f"error <= {bound:g}": curve for bound, curve in advice.further.items()}
    if len(advice.by_stream) > 1:
        lines |= {f"  stream {name} alone": curve for name, curve in advice.by_stream.items()}
    for name, curve in lines.items():
        table.add_row(name, *_slacks(curve))
    return table


def _emissions(advice: Advice, costs: list[EmissionCost]) -> Table:
    """What that slack costs, by when results leave."""
    table = Table(box=None, pad_edge=False)
    table.add_column("with that slack, EMIT ...")
    for heading in (kept_name(advice), "latency", "state" if advice.bound is None else "open rows"):
        table.add_column(heading, justify="right")
    for one in costs:
        kept = share_of(one.first) + (f", then {share_of(one.last)}" if one.last > one.first else "")
        latency = "the end" if one.latency is None else readable(one.latency)
        table.add_row(one.emit, kept, latency if one.waits else "no waiting", f"{one.state:,.0f}")
    return table


def _hours(advice: Advice) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("hour of day, UTC")
    table.add_column("results" if advice.bound is None else "windows", justify="right")
    for target in TARGETS:
        table.add_column(f"{target:g}", justify="right")
    for hour, curve in advice.by_hour.items():
        table.add_row(f"{hour:02d}", f"{curve.of:,}", *_slacks(curve))
    return table


def _spark(advice: Advice) -> list[RenderableType]:
    spark = advice.for_spark
    assert spark is not None
    cut = f"{spark.micro_batches:,} micro-batches of {spark.micro_batch}"
    parts: list[RenderableType] = [
        Text(
            f"For Spark's own operators, which drop late rows ({cut}; the watermark of a micro-batch is known to the"
            " next but one):"
        )
    ]
    targets: dict[tuple[str, ...], list[str]] = {}
    for target, lines in watermark_lines(spark).items():
        targets.setdefault(lines or ("no delay gives that",), []).append(f"{target:g}")
    for copied, shares in targets.items():
        parts.append(Text(f"{kept_name(advice)}{'' if advice.bound is None else ','} {', '.join(shares)}:"))
        parts += [_line(line) for line in copied]
    return parts


def _slacks(curve: Curve) -> list[str]:
    found = (curve.least(target) for target in TARGETS)
    return ["never" if slack is None else readable(slack) for slack in found]


def share_of(share: float) -> str:
    """A share, with as many digits as matter near both ends.

    >>> share_of(1.0), share_of(0.99949), share_of(0.5)
    ('1', '0.99949', '0.5')
    """
    return f"{share:.5f}".rstrip("0").rstrip(".") or "0"

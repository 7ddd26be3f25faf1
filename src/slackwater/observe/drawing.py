"""Small pictures of numbers over time: a line of bars for a terminal, a curve as SVG for a notebook.

Invariant: what is drawn are the numbers that are given, scaled; nothing is made smooth or left out but what does not
fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

BARS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 320, 60
MOST_POINTS = 400
"""Of more values every n-th is drawn, and the last."""


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The last values as a line of bars.

    >>> sparkline([0, 1, 2, 4])
    '▁▃▅█'
    """
    shown = list(values)[-width:]
    top = max(shown, default=0.0)
    return "".join(
        BARS[min(len(BARS) - 1, round(value / top * (len(BARS) - 1)))] if top else BARS[0] for value in shown
    )


def picture(title: str, values: Sequence[float], line: float | None = None) -> str:
    """A small curve as SVG, with the target as a dashed line where there is one."""
    values = _thinned(values)
    low, high = (
        min(*values, *([] if line is None else [line]), 0 if line is None else 1),
        max(*values, line or 0.0, 1e-9),
    )
    span = (high - low) or 1.0

    def down(value: float) -> float:
        return round(HEIGHT - 4 - (value - low) / span * (HEIGHT - 8), 1)

    step = WIDTH / max(1, len(values) - 1)
    points = " ".join(f"{round(i * step, 1)},{down(value)}" for i, value in enumerate(values))
    target = ""
    if line is not None:
        target = (
            f'<line x1="0" x2="{WIDTH}" y1="{down(line)}" y2="{down(line)}" stroke="#c60" stroke-dasharray="4 3"/>'
            f'<text x="2" y="{down(line) - 3}" font-size="9" fill="#c60">target {line:g}</text>'
        )
    return (
        f'<figure style="display:inline-block;margin:4px"><svg width="{WIDTH}" height="{HEIGHT}">{target}'
        f'<polyline points="{points}" fill="none" stroke="#06c" stroke-width="1.5"/></svg>'
        f"<figcaption>{escape(title)}: {values[-1]:.4g} now</figcaption></figure>"
    )


def _thinned(values: Sequence[float]) -> list[float]:
    """
    >>> len(_thinned(range(1000))), _thinned(range(1000))[-1], _thinned([1, 2])
    (334, 999, [1, 2])
    """
    every = -(-len(values) // MOST_POINTS)
    return list(values) if every < 2 else [*values[:-1:every], values[-1]]


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values as a table of HTML; nothing in them is HTML.

    >>> table([("late", "<3")])
    '<table><tr><td>late</td><td>&lt;3</td></tr></table>'
    """
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"

"""A view of running queries that follows them: in a cell of a notebook, or at a terminal.

Invariant: a query pays for taking down its progress, and for no drawing: what is shown is drawn by a thread of the
view, a few times a second, or when it is asked for. Memory is bounded however long it runs.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from slackwater.observe.value import QueryProgress
from slackwater.observe.views import queries_html, queries_text
from slackwater.page.history import Thinned
from slackwater.runtime.follow import follow
from slackwater.runtime.watching import EVERY

REDRAWN = 0.5
"""Seconds from one drawing to the next."""


class LiveView:
    """Shows itself where it is the last value of a cell, and is redrawn while queries run; `live_view` makes one."""

    def __init__(self) -> None:
        self._seen: dict[str, Thinned] = {}
        self._names: dict[str, bool] = {}
        """Whether each has ended."""
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stopped = threading.Event()
        self._display: Any = None
        self._shown_in: int | None = None
        """The cell that shows it already: a notebook shows the value of a cell once more."""

    def expect(self, query: str, **_: Any) -> None:
        with self._lock:
            self._names[query] = False

    def ended(self, query: str, failure: str | None = None) -> None:
        """A query runs no more; it may never have reported anything."""
        with self._lock:
            self._names[query] = True
        self._news.set()

    def publish(self, progress: QueryProgress) -> None:
        with self._lock:
            self._seen.setdefault(progress.query, Thinned()).add(progress)
        self._news.set()

    @property
    def progress(self) -> dict[str, list[QueryProgress]]:
        """What is remembered of every query, oldest first."""
        with self._lock:
            names = dict.fromkeys([*self._names, *self._seen])
            return {name: list(self._seen.get(name, ())) for name in names}

    @property
    def is_over(self) -> bool:
        """Whether all queries have ended."""
        known = self.progress
        over = {name for name, mine in known.items() if mine and (mine[-1].ended or mine[-1].failure is not None)}
        return bool(known) and all(name in over or self._names.get(name, False) for name in known)

    def __str__(self) -> str:
        return queries_text(self.progress)

    def __repr__(self) -> str:
        return f"<live view of {', '.join(self.progress) or 'no query'}>"

    def _repr_html_(self) -> str:
        return queries_html(self.progress)

    def _ipython_display_(self) -> None:
        if self._shown_in != _cell() and not self._stands():
            print(self)

    def show(self, seconds: float | None = None) -> Self:
        """Show it here. With `seconds`, follow the queries for so long, or to their end; without, in the background."""
        self._stands()
        if self._display is not None and seconds is None:
            threading.Thread(target=self._follow, name="slackwater view", daemon=True).start()
        elif self._display is not None:
            self._follow(time.monotonic() + (seconds or 0.0))
        elif seconds is not None:
            self._at_terminal(time.monotonic() + seconds)
        else:
            print(self)
        return self

    def _stands(self) -> bool:
        """Show it in this cell of a notebook, and draw it anew there from now on; False where there is none."""
        self._display, self._shown_in = _new_display(self), _cell()
        return self._display is not None

    def update(self) -> None:
        """Draw it anew, now."""
        if self._display is not None:
            self._display.update(_Drawing(self))

    def stop(self) -> None:
        """Follow the queries no longer; the last picture stays."""
        self._stopped.set()
        self._news.set()

    def _follow(self, until: float | None = None) -> None:
        while self._waited(until):
            self.update()
        self.update()

    def _at_terminal(self, until: float) -> None:
        with Live(console=Console(), auto_refresh=False) as drawn:
            while self._waited(until):
                drawn.update(Text(str(self)), refresh=True)
            drawn.update(Text(str(self)), refresh=True)

    def _waited(self, until: float | None) -> bool:
        """Wait for something new, and a little; False where nothing more is to be waited for."""
        if self.is_over:
            return False
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return False
        self._news.wait(left)
        self._news.clear()
        return not self._stopped.wait(REDRAWN if left is None else min(REDRAWN, max(0.0, left)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


class _Drawing:
    """What a view looks like now."""

    def __init__(self, view: LiveView) -> None:
        self._text, self._html = str(view), view._repr_html_()

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


def _shell() -> Any:
    """IPython around this program; None where there is none."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def _cell() -> int | None:
    """The number of the cell that runs."""
    return getattr(_shell(), "execution_count", None)


def _new_display(view: LiveView) -> Any:
    """Where a notebook shows it; None where there is no notebook."""
    if not hasattr(_shell(), "kernel"):
        return None
    from IPython.display import display

    return display(_Drawing(view), display_id=True)  # type: ignore[no-untyped-call]


def live_view(query: Any, seconds: float | None = None, *, name: str | None = None, every: float = EVERY) -> LiveView:
    """Show a running query, or several as {'name': query}, and follow them in place.

    In a notebook the view is drawn in the cell, and drawn anew while the query runs: for so many `seconds`, or, without
    them, in the background until it ends. At a terminal it needs `seconds`; else it is printed once. `every` is the
    least time between two drawings of a query that rows are pushed into; with 0 there is one at every push.
    """
    view = LiveView()
    follow(query, view, name, every)
    return view.show(seconds)

"""The race of the demo as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slackwater.cli.demo_race import Contender
from slackwater.cli.demo_truth import Truth, recent_recall
from slackwater.core.batch import Floats
from slackwater.core.errors import UsageError
from slackwater.core.quality import Complete, NoWait, Recall
from slackwater.core.time import SECOND

FORMATS = (".png", ".svg", ".pdf")
METHODS = {Complete: "Max-K-slack", NoWait: "No-K-slack", Recall: "steady"}


def drawable(path: Path | None) -> None:
    """Refuse a path at which no picture can be written, before anything is played."""
    if path is not None and path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: name a file that ends in {', '.join(FORMATS)}")
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--figure {path}: there is no folder {path.absolute().parent}")


def draw(contenders: Sequence[Contender], truth: Truth, begin: int, target: Recall, path: Path) -> None:
    """Draw all contenders into a file; the game begins at event time `begin`."""
    # Drawing takes a while to import, and most games are not drawn.
    from slackwater.experiments.race_figure import Seen, draw_race

    race = []
    for contender in contenders:
        # The last moment is the end of the input, where everything is emitted.
        moments = [moment for moment in contender.moments[:-1] if moment.clock is not None]
        race.append(
            Seen(
                contender.name,
                METHODS[type(contender.quality)],
                (_floats([moment.clock for moment in moments]) - begin) / SECOND,
                _floats(recent_recall(moments, truth, target.over)),
                _floats([moment.measured for moment in moments]),
                _floats([moment.slack for moment in moments]) / SECOND,
                _floats([moment.latency for moment in moments]) / SECOND,
            )
        )
    draw_race(race, target, path)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)

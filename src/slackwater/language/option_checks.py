"""Whether the options of a query go with what it asks for.

Invariant: an option that would not be looked at is refused where it stands, never ignored.
"""

from __future__ import annotations

from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Quality, Recall, RelativeError
from slackwater.core.time import format_duration
from slackwater.language.parsed import ParsedQuery

OF_TARGETS = frozenset(
    ("controller", "adaptation_interval", "granularity", "basic_window", "selectivity", "retrospect", "retention")
)
PUBLISHED = ("model", "pd")


def check_options(parsed: ParsedQuery) -> None:
    """Refuse options that say something about what the query does not have."""
    quality = parsed.quality or Complete()
    for name, place in parsed.option_places.items():
        reason = _reason(name, parsed.options, quality)
        if reason is not None:
            raise QueryError(f"option {name} {reason}; leave it out", parsed.text, *place)
    _check_pieces(parsed, quality)


def _reason(name: str, options: Options, quality: Quality) -> str | None:
    if not isinstance(quality, Recall | RelativeError):
        if name not in OF_TARGETS:
            return None
        return f"is for WITH RECALL and WITH ERROR, where a slack is looked for, and this query is {quality}"
    if name == "controller" and options.controller in PUBLISHED and quality.at_most is not None:
        return f"is '{options.controller}', as published, and that knows no AT MOST"
    if name == "selectivity" and isinstance(quality, RelativeError):
        return "is for recall targets alone: an aggregate selects nothing"
    if name == "selectivity" and options.controller != "model":
        return "is for controller = 'model' alone"
    if name == "retrospect" and isinstance(quality, Recall):
        return "is for WITH ERROR alone: recall is measured over the period that RECALL states"
    if name == "retrospect" and options.controller not in PUBLISHED:
        return "is for controller = 'model' and 'pd', which look back so far"
    return None


def _check_pieces(parsed: ParsedQuery, quality: Quality) -> None:
    """The model counts delays in steps of g and windows in pieces of b; steps and pieces must fall together."""
    b, g = parsed.options.basic_window, parsed.options.granularity
    if not isinstance(quality, Recall | RelativeError) or b % g == 0 or g % b == 0:
        return
    place = parsed.option_places.get("basic_window") or parsed.option_places["granularity"]
    message = (
        f"basic_window ({format_duration(b)}) must be a multiple of granularity ({format_duration(g)}) or divide it;"
        f" write basic_window = {format_duration(g)}, or another multiple"
    )
    raise QueryError(message, parsed.text, *place)

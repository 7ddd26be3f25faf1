"""Options about joining streams: where they apply, and which strategy for order a query asks for."""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.results import ADAPTIVE, DEFAULT_ALPHA, FILTER, ISTREAM, STRATEGIES, SYNC, Ordering
from slackwater.language.bound import BoundQuery, JoinQuery, RowWindow, follows_rates, streams_read

OF_ONE_JOIN = ("shape", "join", "windows", "ordering", "alpha", "shards_by")
"""Options that say how the streams of one join are joined."""


def check_no_join_options(options: Options, wanted: str) -> None:
    """Refuse these where no streams are joined, or by more than one operator; `wanted` says what they are for."""
    for name in OF_ONE_JOIN:
        if getattr(options, name) != getattr(Options(), name):
            raise UsageError(f"option {name} is for {wanted}")


def in_turn(query: BoundQuery) -> str | None:
    """What in a query lets its tuples be joined in their turn alone, if there is such a thing."""
    if any(isinstance(stream.window, RowWindow) for stream in streams_read(query)):
        # What is among the last tuples of a stream is known when all before have had their turn.
        return "windows of rows"
    if follows_rates(query):
        return "windows that follow rates"
    if isinstance(query, JoinQuery) and query.kind is not JoinKind.INNER:
        return f"{query.kind.value} joins"
    if query.emit.on_arrival or query.emit.corrections:
        return f"EMIT {query.emit}"
    return None if query.out.kind == ISTREAM else query.out.kind


def check_in_epochs(options: Options) -> None:
    """Refuse what is for tuples that are taken one by one, and does nothing in epochs: there the work of an epoch is
    done when it ends, so no load says when to do it earlier."""
    wanted = options.ordering if options.ordering == ADAPTIVE else None
    if options.ordering == FILTER and options.shape == "binary":
        wanted = FILTER
    if wanted is not None or options.alpha is not None:
        stated = f"alpha = {options.alpha:g}" if wanted is None else f"ordering = '{wanted}'"
        raise UsageError(
            f"option {stated} does nothing in epochs, and so on Spark, where tuples are joined in their turn; leave it"
            " out, or run locally tuple by tuple, with --epoch 1 or epochs=slackwater.Epochs(each_tuple=True)"
        )


def ordering_of(options: Options, streams: int, needs_turn: str | None = None) -> Ordering:
    """What the options of a join of so many streams ask for; refused where that does not apply.

    `needs_turn` is what `in_turn` says of the query.

    >>> ordering_of(Options(), 2)
    Ordering(strategy='adaptive', alpha=0.3)
    >>> ordering_of(Options(join="hash"), 2).strategy, ordering_of(Options(), 1).strategy
    ('sync', 'sync')
    """
    asked = options.ordering or ADAPTIVE
    if asked not in STRATEGIES:
        raise UsageError(f"option ordering = '{options.ordering}': there is {', '.join(STRATEGIES)}")
    if options.alpha is not None and not 0 <= options.alpha < 1:
        raise UsageError(f"option alpha = {options.alpha:g}: it is a share of time, at least 0 and below 1")
    if options.alpha is not None and asked != ADAPTIVE:
        raise UsageError(f"option alpha is for ordering = '{ADAPTIVE}', which decides by it; leave it out")
    alpha = DEFAULT_ALPHA if options.alpha is None else options.alpha
    refused = None
    if streams < 2:
        refused = "is for joins of two streams or more"
    elif options.join is not None:
        refused = f"is not for join = '{options.join}', which takes tuples in their turn; leave one of them out"
    elif needs_turn is not None:
        refused = f"does not go with {needs_turn}: tuples are joined in their turn there; leave one of them out"
    if refused is not None and options.ordering in (FILTER, ADAPTIVE):
        raise UsageError(f"option ordering = '{options.ordering}' {refused}")
    if refused is not None and options.alpha is not None:
        raise UsageError(f"option alpha {refused}")
    return Ordering(asked if refused is None else SYNC, alpha)

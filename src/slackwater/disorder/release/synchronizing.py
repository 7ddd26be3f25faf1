"""The loops of a synchronizer: tuples from slack buffers and from nodes below, put into one order.

Invariant: a stream that comes from a node below is in order and sends the watermark of that node, so it is never
late here; a tuple of a raw stream is late if it is older than the watermark of this node, whatever other nodes do.

References: 004 §4.2.6, 003 §V: every instance of a join has a synchronizer of its own (Alg. 3.1), behind slack buffers
that share one K.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.disorder.release.epoch import pass_on, release_up_to
from slackwater.disorder.release.slack_heap import hold
from slackwater.disorder.release.state import MAX_TS, NOW, T_SYNC, WATERMARK, Buffers, Clockwork
from slackwater.disorder.release.tuple import synchronize
from slackwater.disorder.release.watermarks import is_watermark, stream_of


class Last(NamedTuple):
    """How a batch ends: a sequence number after all others, the largest clock, the time, and whether the input ends."""

    sequence: int
    clock: int
    emit_time: int
    ending: bool


@in_place
def synchronize_each(
    new: OrderedTuples, last: Last, clock: Clockwork, held: Buffers, out: OrderedTuples, emit: Words, reached: Words
) -> int:
    """Tuple release: Alg. 3.1 for every tuple that comes, and T-join of Alg. 4.6. Returns how many are emitted.

    Written after each one: how many tuples have been emitted, and where the watermark stands. When the input is ending,
    all tuples are first brought here, and then emitted.
    """
    m = len(clock.clocks)
    n_out = 0
    for i in range(len(new.stream)):
        s, t = new.stream[i], new.words[TS, i]
        clock.scalars[MAX_TS], clock.scalars[NOW] = new.clock[i], new.emit_time[i]
        if is_watermark(s):
            source = stream_of(s)
            clock.promised_watermark[source] = max(clock.promised_watermark[source], t)
        elif t <= clock.scalars[T_SYNC]:
            n_out = pass_on(clock, new, i, new.delay[i], out, n_out)
            clock.scalars[WATERMARK] = max(clock.scalars[WATERMARK], t)
        else:
            hold(clock, held, m + s, new, i, new.delay[i])
        if not last.ending:
            n_out = synchronize(clock, m, False, held, out, n_out)
        emit[i], reached[i] = n_out, clock.scalars[WATERMARK]
    if last.ending:
        clock.scalars[MAX_TS], clock.scalars[NOW] = last.clock, last.emit_time
        n_out = synchronize(clock, m, True, held, out, n_out)
    return n_out


@in_place
def hold_for_watermarks(
    new: OrderedTuples, last: Last, clock: Clockwork, held: Buffers, out: OrderedTuples, emit: Words, reached: Words
) -> int:
    """Epoch release: the watermark is the smallest watermark of the inputs, and all that is held up to it is emitted,
    sorted.

    Watermark events come when an epoch ends. Until then what lies at the watermark is held, so that late tuples of the
    same epoch stand in their windows before it, however the epoch was put together.
    """
    n_out = 0
    for i in range(len(new.stream)):
        s, t = new.stream[i], new.words[TS, i]
        clock.scalars[MAX_TS], clock.scalars[NOW] = new.clock[i], new.emit_time[i]
        watermark = clock.scalars[WATERMARK]
        if is_watermark(s):
            source = stream_of(s)
            clock.promised_watermark[source] = max(clock.promised_watermark[source], t)
            bound = AFTER_ALL
            for k in range(len(clock.promised_watermark)):
                bound = min(bound, clock.promised_watermark[k])
            clock.scalars[WATERMARK] = max(watermark, bound)
            n_out = release_up_to(clock, clock.scalars[WATERMARK], watermark, held, out, n_out)
        elif t < watermark:
            n_out = pass_on(clock, new, i, new.delay[i], out, n_out)
        else:
            hold(clock, held, 0, new, i, new.delay[i])
        emit[i], reached[i] = n_out, clock.scalars[WATERMARK]
    if last.ending:
        clock.scalars[MAX_TS], clock.scalars[NOW] = last.clock, last.emit_time
        n_out = release_up_to(clock, AFTER_ALL, clock.scalars[WATERMARK], held, out, n_out)
    return n_out

"""Clocks that follow a vote: how far a stream has come, by what most of its latest arrivals say.

A stream's clock is the largest event time that the vote confirms. A tuple too far ahead of it says nothing about
time: a wrong clock sends such tuples again and again, steadily, now and then or in bursts. So no fixed small number of
them moves a clock. How far ahead is too far follows from the stream itself:

    allowed = a second, eight usual steps of the clock, twice the usual delay, or a stall of twenty arrivals (five
              seconds at most): whichever is longest

One that is further ahead moves the clock only where another stream is already, within `max_ahead`, or when the others
come along:

- *A run*: of the last arrivals not one has stayed behind. In a slow stream five will do; a fast one is asked for what
  it sends in 1.6 seconds, so that one device that uploads what it kept is no run. So a real gap is recognised; and a
  stream that has become slow, by 24 that cover a minute themselves; while it is new, by five that do, or are near.
- *A share*: 16 of the last 63 samples were as far ahead (a majority where there are few). Samples are taken such that
  they cover some seconds, so that a burst is one voice or two. So the present is recognised beside a backlog.

With one wrong tuple in twenty neither goes wrong in weeks once a stream is known; among its very first arrivals a wrong
one may still move the clock. Without wrong clocks a clock is the largest event time,
as the papers have it. What is allowed is allowed from where most arrivals are: less,
while all of the last few arrivals were behind the clock, so that wrong tuples cannot lead it away step by step. A
stream that has no clock yet waits for two arrivals within ten seconds, or for three and more of which most agree,
unless other streams are there already; and of its first arrivals more is allowed, because what is usual is not known
yet. Where it is known when tuples arrive, one whose event time is near that moment needs no vote.

In an epoch the vote sees a histogram of its arrivals, so that their order does not matter: the clock goes up through it
as long as the time before each step holds a fifth of the tuples that it usually holds. In tuple release an epoch is one
arrival.

Invariant: a clock never goes back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import in_place, inner
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.disorder.event_times import SHIFT, TUPLES, EventTimes, sort_buckets

RING = 64
MOST = 63
FIRST = 4
"""Before so many arrivals nothing is usual, and `max_ahead` is allowed."""
EARLY = 16
"""Of a stream's first arrivals more is allowed: EARLY_STEPS steps, or NEAR tolerances."""
EARLY_STEPS, NEAR = 32, 10
UNDECIDED = 9
"""Arrivals that must disagree no more, where they lie further apart than `max_ahead`."""
SHORTEST_RUN, LONGEST_RUN = 5, 1000
SLOW_RUN, MINUTES = 24, 60
"""A run of so many will do where it covers so many tolerances itself."""
STEPS = 8
"""How many usual steps are allowed at once."""
STALL = 20
COVERED = 5
"""Samples cover at least so many tolerances of the stream, and at most four times as many."""
LARGEST_STRIDE = 1 << 20
PATIENT_FOR, PATIENCE = 200, 1024
"""Weather reports are dated to the half hour: the first ones of the next are few for long."""
LATELY = 8
SMALL = 8
"""A step of less than one so many-th of the tolerance leads nobody away."""
# Places in `ClockVote.marks`: the clock; arrivals; the length of the run; samples; every how many-th arrival is one;
# the usual step of the clock; stream time per arrival; how far behind the clock the middle arrival is.
CLOCK, ARRIVALS, RUN, SAMPLED, STRIDE, STEP, GAP, DELAY = range(8)
MARKS = 8
FURTHEST = 2 * RING
"""The place of the largest clock in `ClockVote.scratch`."""
RINGS = ("leads", "clocks", "run", "lately")
"""What is persisted beside the marks."""


class ClockVote(NamedTuple):
    """What arrived lately of every member: of a stream, or of a part of one."""

    leads: Words
    """(members, RING): how far ahead of the clock samples of the last arrivals were; behind it, less than 0."""
    clocks: Words
    """(members, RING): the clock when each of them came."""
    run: Words
    """(members, RING): event times of the arrivals of the run, or of those before there is a clock."""
    lately: Words
    """(members, LATELY): how far ahead the very last arrivals were."""
    marks: Words
    scratch: Words
    """Space to sort in; and behind it the largest clock of all, which is asked for with every arrival."""


def clock_vote(members: int) -> ClockVote:
    """An empty vote."""
    marks = np.zeros((members, MARKS), np.int64)
    marks[:, CLOCK], marks[:, STRIDE] = BEFORE_ALL, 1
    leads, clocks, run = np.zeros((3, members, RING), np.int64)
    lately = np.zeros((members, LATELY), np.int64)
    return ClockVote(leads, clocks, run, lately, marks, np.append(np.zeros(2 * RING, np.int64), BEFORE_ALL))


def grown(old: ClockVote, members: int) -> ClockVote:
    """The same with more members."""
    new = clock_vote(members)
    for before, after in zip(old[:5], new[:5], strict=True):
        after[: len(before)] = before
    restored(new)
    return new


def restored(c: ClockVote) -> None:
    """Marks were put back: find the largest clock again."""
    c.scratch[FURTHEST] = c.marks[:, CLOCK].max(initial=BEFORE_ALL)


def tolerance_of(max_ahead: int) -> int:
    """A tuple that is ahead by no more than this counts as one of the others."""
    return min(SECOND, max_ahead)


@inner
def begins_fast(c: ClockVote, m: int, tolerance: int) -> bool:
    """Whether the first steps of a stream are known to be short."""
    return 0 < c.marks[m, STEP] < tolerance


@inner
def learn_early_step(c: ClockVote, m: int, step: int, tolerance: int) -> None:
    """Among a stream's first arrivals longer steps are usual too; where the first ones were short, none of another
    kind."""
    if c.marks[m, ARRIVALS] < EARLY and (not begins_fast(c, m, tolerance) or step <= STEPS * c.marks[m, STEP]):
        c.marks[m, STEP] = max(c.marks[m, STEP], step)


@inner
def allowed(c: ClockVote, m: int, max_ahead: int, tolerance: int) -> int:
    """How far ahead of its clock a tuple of a member may be and still move it."""
    if c.marks[m, ARRIVALS] < FIRST and not begins_fast(c, m, tolerance):
        return max_ahead
    if c.marks[m, ARRIVALS] < EARLY:
        return max(NEAR * tolerance, EARLY_STEPS * c.marks[m, STEP])
    stall = min(STALL * c.marks[m, GAP], COVERED * tolerance)
    return max(tolerance, max(stall, max(STEPS * c.marks[m, STEP], 2 * c.marks[m, DELAY])))


@inner
def left_of_allowed(c: ClockVote, m: int, max_ahead: int, tolerance: int) -> int:
    """What is allowed, less how far all but one of the last few arrivals were behind the clock."""
    best = second = BEFORE_ALL
    for i in range(LATELY):
        lead = c.lately[m, i]
        if lead > best:
            best, second = lead, best
        elif lead > second:
            second = lead
    return allowed(c, m, max_ahead, tolerance) + min(0, second)


@inner
def run_asked(c: ClockVote, m: int, tolerance: int) -> int:
    """How long a run of tuples ahead must be."""
    return min(max(8 * tolerance // (5 * max(1, c.marks[m, GAP])), SHORTEST_RUN), LONGEST_RUN)


@inner
def has_come_along(c: ClockVote, m: int, tolerance: int) -> bool:
    """Whether the run is long enough: by its number, or, where a stream has become slow, by the time it covers."""
    run, new = c.marks[m, RUN], c.marks[m, ARRIVALS] < RING
    if run >= run_asked(c, m, tolerance):
        return True
    slow = SHORTEST_RUN if new else SLOW_RUN
    if run < slow:
        return False
    last = c.run[m, (run - 1) & (RING - 1)]
    if new and last - c.marks[m, CLOCK] <= NEAR * tolerance:
        # Not far: a stream that was silent for a second or two.
        return True
    return last - c.run[m, (run - slow) & (RING - 1)] >= MINUTES * tolerance


@inner
def patience(c: ClockVote, m: int, tolerance: int) -> int:
    """After how many arrivals that did not come along a tuple ahead has lost its vote: those of some minutes."""
    return min(max(PATIENT_FOR * tolerance // max(1, c.marks[m, GAP]), UNDECIDED), PATIENCE)


@inner
def sorted_into(c: ClockVote, values: Words, last: int, n: int) -> None:
    """The last n of a ring that ends before a place, smallest first, into scratch."""
    for i in range(n):
        # Arrivals are nearly in order, so inserting one after the other moves little.
        value, at = values[(last - n + i) & (RING - 1)], i
        while at > 0 and c.scratch[at - 1] > value:
            c.scratch[at] = c.scratch[at - 1]
            at -= 1
        c.scratch[at] = value


@inner
def share_lead(c: ClockVote, m: int) -> int:
    """How far ahead a sufficient share of the samples were; BEFORE_ALL where there are too few."""
    n = min(c.marks[m, SAMPLED], MOST)
    if n < UNDECIDED:
        return BEFORE_ALL
    sorted_into(c, c.leads[m], c.marks[m, SAMPLED], n)
    voices = (n + 1) // 2 if n <= 15 else 11 if n <= 31 else 16
    return c.scratch[n - voices]


@inner
def sample(c: ClockVote, m: int, lead: int, max_ahead: int, tolerance: int) -> None:
    """Remember how far ahead an arrival was; every sixteen, ask what is usual, and whether samples cover enough."""
    at = c.marks[m, SAMPLED] & (RING - 1)
    c.leads[m, at], c.clocks[m, at] = lead, c.marks[m, CLOCK]
    c.marks[m, SAMPLED] += 1
    if at & 15 != 15 and c.marks[m, SAMPLED] > 15:
        return
    usual = share_lead(c, m)
    if usual != BEFORE_ALL and usual <= allowed(c, m, max_ahead, tolerance):
        c.marks[m, STEP] = max(0, usual)
        c.marks[m, DELAY] = max(0, -c.scratch[min(c.marks[m, SAMPLED], MOST) // 2])
    n = min(c.marks[m, SAMPLED], RING)
    covered = c.marks[m, CLOCK] - c.clocks[m, (at + 1 - n) & (RING - 1)]
    c.marks[m, GAP] = max(1, covered // (n * c.marks[m, STRIDE]))
    if n < RING:
        return
    if covered < COVERED * tolerance and c.marks[m, STRIDE] < LARGEST_STRIDE:
        for i in range(RING // 2):
            # Every other of the last 64, oldest first.
            old = (at + 2 + 2 * i) & (RING - 1)
            c.scratch[i], c.scratch[RING + i] = c.leads[m, old], c.clocks[m, old]
        for i in range(RING // 2):
            c.leads[m, i], c.clocks[m, i] = c.scratch[i], c.scratch[RING + i]
        c.marks[m, SAMPLED] = RING // 2
        c.marks[m, STRIDE] *= 2
    elif covered > 4 * COVERED * tolerance and c.marks[m, STRIDE] > 1:
        c.marks[m, STRIDE] //= 2


@inner
def begin_anew(c: ClockVote, m: int, clock: int, step: int) -> None:
    """The clock jumps, and what was usual before it says nothing any more."""
    move_clock(c, m, clock)
    c.marks[m, RUN], c.marks[m, SAMPLED], c.marks[m, STRIDE] = 0, 0, 1
    c.marks[m, STEP], c.marks[m, GAP], c.marks[m, DELAY] = step, max(1, step), 0
    for i in range(LATELY):
        c.lately[m, i] = 0


@inner
def agree(c: ClockVote, m: int, n: int, max_ahead: int, tolerance: int) -> bool:
    """Set the clock, or move it, to where most of the last n arrivals of the run are; False where they disagree."""
    sorted_into(c, c.run[m], c.marks[m, RUN], n)
    middle, near = c.scratch[n // 2], 0
    apart = NEAR * tolerance if n == 2 else max_ahead
    for i in range(n):
        near += 1 if abs(c.scratch[i] - middle) <= apart else 0
    if c.marks[m, CLOCK] == BEFORE_ALL and n < UNDECIDED and 2 * near <= n:
        return False
    # Wrong ones stand at the ends, so the step is that of the quarter before the middle or behind it, the less.
    low, high = n // 4, min(n - 1, n // 2 + max(1, n // 4))
    before = (middle - c.scratch[low]) // max(1, n // 2 - low)
    step = min(before, (c.scratch[high] - middle) // max(1, high - n // 2)) if n > 2 else before
    if c.marks[m, CLOCK] == BEFORE_ALL and n < EARLY:
        # Of so few it is not known what is usual: the longest step that most are no further apart than; but none of
        # another kind, for one of the first may be wrong.
        longest = STEPS * max(step, NEAR * tolerance)
        for i in range(1, n):
            here = max(abs(c.scratch[i] - middle), abs(c.scratch[i - 1] - middle)) <= apart
            if here and c.scratch[i] - c.scratch[i - 1] <= longest:
                step = max(step, c.scratch[i] - c.scratch[i - 1])
    last = middle
    for i in range(n // 2, n):
        if c.scratch[i] - last <= max(tolerance, STEPS * step):
            last = c.scratch[i]
    begin_anew(c, m, last, step)
    return True


@inner
def furthest(c: ClockVote) -> int:
    """The largest clock of all."""
    return c.scratch[FURTHEST]


@inner
def move_clock(c: ClockVote, m: int, t: int) -> None:
    """A clock is at least here."""
    c.marks[m, CLOCK] = max(c.marks[m, CLOCK], t)
    c.scratch[FURTHEST] = max(c.scratch[FURTHEST], t)


@inner
def join_run(c: ClockVote, m: int, t: int) -> None:
    """An arrival ahead, or one before there is a clock."""
    c.run[m, c.marks[m, RUN] & (RING - 1)] = t
    c.marks[m, RUN] += 1


@inner
def begin_clock(c: ClockVote, m: int, max_ahead: int, tolerance: int) -> None:
    """A member without a clock has been heard: by enough tuples that agree?"""
    n = min(c.marks[m, RUN], MOST)
    for other in range(len(c.marks)):
        if other != m and c.marks[other, CLOCK] == BEFORE_ALL:
            for i in range(min(c.marks[other, RUN], MOST)):
                for j in range(n - 1, -1, -1):
                    if abs(c.run[m, j] - c.run[other, i]) <= NEAR * tolerance:
                        # Two streams begin together.
                        begin_anew(c, other, c.run[other, i], 0)
                        begin_anew(c, m, c.run[m, j], 0)
                        return
    if n >= 2:
        agree(c, m, n, max_ahead, tolerance)


@inner
def is_right(t: int, arrival_time: int, max_ahead: int, tolerance: int) -> bool:
    """Whether the moment of its arrival vouches for a tuple: it is hardly ahead of that, and not far behind it."""
    return arrival_time != BEFORE_ALL and arrival_time - max_ahead <= t <= arrival_time + tolerance


@inner
def advance_by_tuple(c: ClockVote, m: int, t: int, arrival_time: int, max_ahead: int, tolerance: int) -> None:
    """One tuple of a member has come, at a moment where that is known (else BEFORE_ALL)."""
    c.marks[m, ARRIVALS] += 1
    arrivals, lead = c.marks[m, ARRIVALS], t - c.marks[m, CLOCK]
    # As it mostly is: hardly ahead, and no sample. All else is a function of its own, so that this one stays small.
    if lead > tolerance // SMALL or arrivals & (c.marks[m, STRIDE] - 1) == 0 or arrivals < EARLY:
        weigh_arrival(c, m, t, arrival_time, max_ahead, tolerance)
        return
    c.lately[m, arrivals & (LATELY - 1)] = lead
    c.marks[m, RUN] = 0
    move_clock(c, m, t)


@in_place
def weigh_arrival(c: ClockVote, m: int, t: int, arrival_time: int, max_ahead: int, tolerance: int) -> None:
    """`advance_by_tuple` for an arrival that is counted, whatever it says about time."""
    clock = c.marks[m, CLOCK]
    lead = t - clock
    right = is_right(t, arrival_time, max_ahead, tolerance)
    if clock == BEFORE_ALL:
        there = furthest(c)
        if right or (there != BEFORE_ALL and t <= there + tolerance):
            begin_anew(c, m, t, 0)
        else:
            join_run(c, m, t)
            begin_clock(c, m, max_ahead, tolerance)
        return
    if c.marks[m, ARRIVALS] & (c.marks[m, STRIDE] - 1) == 0:
        sample(c, m, lead, max_ahead, tolerance)
    at_once = lead <= tolerance // SMALL
    if not at_once:
        # Only a fast stream has enough wrong tuples to lead it away.
        fast = c.marks[m, ARRIVALS] >= EARLY and c.marks[m, GAP] * LATELY * SMALL < tolerance
        at_once = lead <= (left_of_allowed(c, m, max_ahead, tolerance) if fast else allowed(c, m, max_ahead, tolerance))
        # Where another stream is already, within `max_ahead`, nobody is too early.
        right = right or (lead <= max_ahead and t <= furthest(c))
    c.lately[m, c.marks[m, ARRIVALS] & (LATELY - 1)] = lead
    if lead <= 0:
        c.marks[m, RUN] = 0
    elif right or at_once:
        move_clock(c, m, t)
        c.marks[m, RUN] = 0
        if at_once:
            learn_early_step(c, m, lead, tolerance)
    else:
        join_run(c, m, t)
        if has_come_along(c, m, tolerance):
            agree(c, m, min(c.marks[m, RUN], MOST), max_ahead, tolerance)
        elif lead <= share_lead(c, m):
            begin_anew(c, m, t, c.marks[m, STEP])


@inner
def advance_through(c: ClockVote, m: int, times: EventTimes, buckets: int, max_ahead: int, tolerance: int) -> int:
    """Move the clock up through the sorted buckets of an epoch; returns how many of them it has reached."""
    scratch, clock = len(times.used) - 1, c.marks[m, CLOCK]
    # Where tuples come one upon another, the latest of two buckets in a row may be two widths apart.
    step = max(allowed(c, m, max_ahead, tolerance), 2 << times.used[m, SHIFT])
    # Few tuples cannot lead the clock away step by step, and are not dense enough to tell.
    usual = 0 if times.used[m, TUPLES] < MOST else step // (5 * max(1, c.marks[m, GAP]))
    reached, behind, inside, there = 0, 0, 0, furthest(c)
    for b in range(buckets):
        t = times.latest[scratch, b]
        inside += times.size[scratch, b]
        while times.latest[scratch, behind] <= t - step:
            inside -= times.size[scratch, behind]
            behind += 1
        known = t <= there and t - c.marks[m, CLOCK] <= max_ahead
        if not known and (t - c.marks[m, CLOCK] > step or (t - clock > step and inside < usual)):
            break
        learn_early_step(c, m, t - c.marks[m, CLOCK], tolerance)
        move_clock(c, m, t)
        reached = b + 1
    return reached


@inner
def run_from(c: ClockVote, m: int, times: EventTimes, buckets: int, n: int) -> None:
    """The n tuples of an epoch's sorted buckets join the run, or evenly spread samples of them."""
    scratch, before, of = len(times.used) - 1, 0, min(n, MOST)
    j = 0
    for b in range(buckets):
        before += times.size[scratch, b]
        while j < of and (2 * j + 1) * n // (2 * of) < before:
            join_run(c, m, times.latest[scratch, b])
            j += 1


@inner
def advance_by_epoch(
    c: ClockVote, m: int, times: EventTimes, arrival_time: int, max_ahead: int, tolerance: int
) -> None:
    """The arrivals of a member in an epoch have come, as a histogram."""
    n, before = times.used[m, TUPLES], c.marks[m, ARRIVALS]
    scratch, buckets = len(times.used) - 1, sort_buckets(times, m)
    c.marks[m, ARRIVALS] += n
    if c.marks[m, CLOCK] == BEFORE_ALL:
        there = furthest(c)
        for b in range(buckets):
            t = times.latest[scratch, b]
            if there != BEFORE_ALL and t <= there + tolerance:
                begin_anew(c, m, t, 0)
        if c.marks[m, CLOCK] == BEFORE_ALL:
            run_from(c, m, times, buckets, n)
            begin_clock(c, m, max_ahead, tolerance)
        if c.marks[m, CLOCK] != BEFORE_ALL:
            advance_through(c, m, times, buckets, max_ahead, tolerance)
    else:
        was = c.marks[m, CLOCK]
        reached = advance_through(c, m, times, buckets, max_ahead, tolerance)
        inside = 0
        for b in range(reached):
            inside += times.size[scratch, b]
        # What the clock has reached in this epoch were even steps.
        step = (c.marks[m, CLOCK] - was) // max(1, inside)
        stride = c.marks[m, STRIDE]
        samples = min(c.marks[m, ARRIVALS] // stride - before // stride, MOST)
        upto, j = 0, 0
        for b in range(buckets):
            upto += times.size[scratch, b]
            while j < samples and (2 * j + 1) * n // (2 * samples) < upto:
                behind = times.latest[scratch, b] - was
                if b >= reached:
                    sample(c, m, times.latest[scratch, b] - c.marks[m, CLOCK], max_ahead, tolerance)
                else:
                    sample(c, m, step if behind > 0 else behind, max_ahead, tolerance)
                j += 1
        if reached > 0:
            c.marks[m, RUN] = 0
        if reached < buckets:
            vote_ahead(c, m, times, buckets, reached, max_ahead, tolerance)
    if arrival_time != BEFORE_ALL:
        for b in range(buckets):
            t = times.latest[scratch, b]
            if is_right(t, arrival_time, max_ahead, tolerance) and t > c.marks[m, CLOCK]:
                begin_anew(c, m, t, c.marks[m, STEP])


@inner
def vote_ahead(
    c: ClockVote, m: int, times: EventTimes, buckets: int, reached: int, max_ahead: int, tolerance: int
) -> None:
    """Some of an epoch's arrivals are ahead: have the others come along?"""
    scratch, above = len(times.used) - 1, 0
    for b in range(reached, buckets):
        above += times.size[scratch, b]
    if reached == 0:
        run_from(c, m, times, buckets, above)
        c.marks[m, RUN] += max(0, above - MOST)
        if has_come_along(c, m, tolerance):
            agree(c, m, min(c.marks[m, RUN], MOST), max_ahead, tolerance)
            advance_through(c, m, times, buckets, max_ahead, tolerance)
            return
    lead = share_lead(c, m)
    if lead > allowed(c, m, max_ahead, tolerance):
        for b in range(buckets - 1, reached - 1, -1):
            t = times.latest[scratch, b]
            if t - c.marks[m, CLOCK] <= lead:
                begin_anew(c, m, t, c.marks[m, STEP])
                advance_through(c, m, times, buckets, max_ahead, tolerance)
                break


@in_place
def advance_by_histogram(
    c: ClockVote, m: int, times: EventTimes, arrival_time: int, max_ahead: int, tolerance: int
) -> None:
    """`advance_by_epoch`, for callers that are not compiled."""
    advance_by_epoch(c, m, times, arrival_time, max_ahead, tolerance)

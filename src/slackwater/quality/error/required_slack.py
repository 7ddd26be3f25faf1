"""What recent windows needed, whether they got it, and the slack that follows.

Invariant: every window with tuples enters once, when the clock passes its end, and stands in the bin of its need as far
as it is known. `weights` counts the windows of the ring by bin, but for blocks that are forgotten; `lately` those of
the last periods. `marks[SPENT]` is how many windows of the running period are known to have failed: a closed window
whose need is larger than the slack it was closed under has failed, whenever that comes out.
"""

from __future__ import annotations

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner
from slackwater.quality.error.quantile_slack import BINS, bin_met_by, edge_of
from slackwater.quality.error.remembered_windows import (
    BASE,
    BOUND,
    CHOICES,
    CLOCK,
    CLOSED,
    ENTERED,
    FAILED,
    FINISHED,
    FOUND,
    GROWING,
    HELD,
    HELD_LATELY,
    HIGHEST,
    INTO,
    JUDGED,
    KNOWN,
    LARGEST_MARGIN,
    LATELY,
    MARGIN,
    MET,
    NOT_YET,
    NUMBER,
    OPEN,
    REACHED,
    SHORT,
    SPENT,
    STRIDE,
    UNKNOWN,
    VERDICT,
    WANTED,
    WEIGHS,
    WEIGHTS,
    Judging,
    RequiredSlack,
)
from slackwater.quality.error.window_losses import (
    CHANGED,
    Watch,
    WindowLedger,
    absorb,
    last_ended,
    last_piece,
    needed_bin,
    newest_piece,
    reach,
)
from slackwater.quality.stats.keyed_sums import NO_LINE, place_of


@in_place
def learn_and_choose(
    w: Watch, b: WindowLedger, n: RequiredSlack, j: Judging, allowed: Floats, scratch: Floats, words: Words,
    floats: Floats, behind: Words, begin: int, clock: int, slack: int, cap: int,
) -> int:  # fmt: skip
    """Note arrivals from `begin` on and choose; if a table is full before the end, NOT_YET less what was noted.

    It is one call because handing over the ledger costs more than most choices do.
    """
    if begin < words.shape[1]:
        done = absorb(w, b, words, floats, behind, begin, slack)
        if done < words.shape[1]:
            return NOT_YET - done
    return slack_for_required(w, b, n, j, allowed, scratch, clock, slack, cap)


@in_place
def slack_for_required(
    w: Watch,
    b: WindowLedger,
    n: RequiredSlack,
    j: Judging,
    allowed: Floats,
    scratch: Floats,
    clock: int,
    slack: int,
    cap: int,
) -> int:
    """One adaptation: note what has ended, come late, been closed and settled under this slack; the slack to be."""
    watermark = reach(b, clock, slack)
    enter(w, b, n, j, last_ended(w, clock))
    note_finding(n, clock, put_right(w, b, n, j, allowed, scratch[0], scratch[1]))
    return chosen(w, n, j, watermark, clock, slack, cap)


@in_place
def slack_for_reported(
    w: Watch, n: RequiredSlack, j: Judging, filled: Words, changed: Words, watermark: int, clock: int, slack: int,
    cap: int,
) -> int:  # fmt: skip
    """The same by what shards have reported: the windows with tuples that have ended since the last adaptation, in
    their order, and (window, bin) of those whose need has changed."""
    enter_those(n, j, last_ended(w, clock), filled)
    found = 0
    for i in range(changed.shape[1]):
        window, into = changed[0, i], changed[1, i]
        if window > n.marks[ENTERED] - n.ring.shape[1]:
            at = window % n.ring.shape[1]
            # Another shard may have needed more before: what a window needs hardly ever becomes less.
            known = n.ring[INTO, at] if n.ring[NUMBER, at] == window else 0
            found = max(found, put_one_right(n, j, window, max(into, known)))
    note_finding(n, clock, found)
    return chosen(w, n, j, watermark, clock, slack, cap)


@in_place
def filled_between(w: Watch, b: WindowLedger, first: int, last: int, filled: Words) -> int:
    """The windows between two numbers that have tuples; how many."""
    count = 0
    if first <= last:
        newest = newest_piece(w, b.totals, first)
        for window in range(first, last + 1):
            newest = newest_with(w, b, window, newest)
            if newest >= 2 * window:
                filled[count] = window
                count += 1
    return count


def filled_windows(w: Watch, b: WindowLedger, n: RequiredSlack, last: int, filled: Words) -> int:
    """The windows with tuples that have ended since the last adaptation, the newest of which is `last`; how many."""
    return filled_between(w, b, max(int(n.marks[ENTERED]) + 1, last - n.ring.shape[1] + 1), last, filled)


@in_place
def changed_windows(w: Watch, b: WindowLedger, allowed: Floats, scratch: Floats, changed: Words) -> int:
    """(window, bin of its need) where late tuples have come since the last call; how many."""
    count = b.marks[CHANGED]
    for i in range(count):
        window = b.changed[i]
        b.is_changed[window & (len(b.is_changed) - 1)] = 0
        changed[0, i], changed[1, i] = window, needed_bin(w, b, window, allowed, scratch[0], scratch[1])
    b.marks[CHANGED] = 0
    return count


@inner
def chosen(w: Watch, n: RequiredSlack, j: Judging, watermark: int, clock: int, slack: int, cap: int) -> int:
    """The slack to be, now that it is noted what windows need: those closed and settled under this slack are judged."""
    close(n, j, last_ended(w, watermark), bin_met_by(slack, w.unit))
    judge(n, j, last_ended(w, clock - 2 * slack - j.settling))
    if n.marks[ENTERED] // j.stride > n.marks[STRIDE]:
        n.marks[STRIDE] = n.marks[ENTERED] // j.stride
        forget(n, j, w.unit)
    wanted = edge_of(least_bin(n, WEIGHTS, j, w.unit, (1.0 - n.scalars[MARGIN]) * j.delta), w.unit)
    n.marks[WANTED] = wanted
    if n.marks[SPENT] > j.alarm:
        wanted = max(wanted, foreseen(n, j, w.unit, clock, wanted))
    else:
        n.marks[GROWING] = NO_LINE
    return within(n, j, w.unit, clock, wanted, cap)


@inner
def within(n: RequiredSlack, j: Judging, unit: int, clock: int, wanted: int, cap: int) -> int:
    """The slack that is wanted, if the cap allows it; else the least that does nearly as well as the cap."""
    most = bin_met_by(cap, unit)
    above = 0
    for b in range(n.marks[HIGHEST], most, -1):
        above += n.bins[WEIGHTS, b]
    n.scalars[REACHED] = 1.0 - above / at_risk(n, WEIGHTS, max(edge_of(most, unit), j.unsettled), j.slide)
    passed = 0 if n.marks[CLOCK] == NO_LINE else max(0, clock - n.marks[CLOCK])
    short = 1.0 if n.scalars[REACHED] < 1.0 - j.delta else 0.0
    n.scalars[SHORT] += min(1.0, passed / j.patience) * (short - n.scalars[SHORT])
    n.marks[CLOCK] = clock
    n.marks[CHOICES] += 1
    if wanted <= cap:
        return wanted
    n.marks[BOUND] += 1
    if short == 0.0:
        return cap
    # Waiting longer for what hardly ever comes within the cap would be waiting for nothing.
    enough = above + 0.1 * j.delta * n.marks[HELD]
    while most > 0 and above + n.bins[WEIGHTS, most] <= enough:
        above += n.bins[WEIGHTS, most]
        most -= 1
    return min(cap, edge_of(most, unit))


@inner
def at_risk(n: RequiredSlack, row: int, slack: int, slide: int) -> float:
    """How many windows are old enough to be known to need more than this slack; they are as good as all there are."""
    held = n.marks[HELD if row == WEIGHTS else HELD_LATELY]
    return max(held - slack / slide, 0.1 * held, 1.0)


@in_place
def least_bin(n: RequiredSlack, row: int, j: Judging, unit: int, share: float) -> int:
    """The least bin with at most this share of the windows above it, of those old enough to tell."""
    above = 0
    held = n.marks[HELD if row == WEIGHTS else HELD_LATELY]
    for b in range(n.marks[HIGHEST], 0, -1):
        above += n.bins[row, b]
        slack = edge_of(b - 1, unit)
        # One straggler tells nothing of slack that is long beside all that is remembered.
        alone = j.overlap if 4 * slack > held * j.slide else 0
        if above > max(alone, share * at_risk(n, row, max(slack, j.unsettled), j.slide)):
            return b
    return 0


@inner
def note_finding(n: RequiredSlack, clock: int, into: int) -> None:
    """Windows turned out to need as much as this bin."""
    if into > 0:
        at = n.marks[FOUND] % len(n.findings)
        n.findings[at, 0], n.findings[at, 1] = clock, into
        n.marks[FOUND] += 1


@in_place
def foreseen(n: RequiredSlack, j: Judging, unit: int, clock: int, usual: int) -> int:
    """What windows turn out to need just now, if that is more than usual again and again; 0 if it is not."""
    begun, base = n.marks[GROWING], n.marks[BASE]
    if begun == NO_LINE:
        begun, base = clock - j.newest, bin_met_by(usual, unit)
    news, last, times, largest, newer, older = 0, NO_LINE, 0, 0, 0, 0
    for at in range(len(n.findings)):
        when, into = n.findings[at, 0], n.findings[at, 1]
        if when > begun:
            times += 1
            if into > base:
                news, last = news + 1, max(last, when)
        if when > clock - j.newest // 2:
            largest, newer = max(largest, into), max(newer, min(largest, into))
        elif when > clock - j.newest:
            older = max(older, into)
    # A burst comes out at once, growth again and again. The longer it has lasted, the later it is taken to be over.
    if news < 2 or clock - last > max(j.newest, min(j.calming, last - begun)):
        n.marks[GROWING] = NO_LINE
        return 0
    n.marks[GROWING], n.marks[BASE] = begun, base
    # The less may fail still, the further ahead one must be of what has come out so far.
    spent = min(1.0, n.marks[SPENT] / (j.delta * j.period))
    slack = int((1.0 + j.ahead * spent) * edge_of(ranked(n, begun, 1 + int(j.delta * times)), unit))
    return max(slack, 2 * edge_of(newer, unit) - edge_of(older, unit) if newer > older else 0)


@inner
def ranked(n: RequiredSlack, begun: int, rank: int) -> int:
    """The bin that fewer than `rank` findings since a clock exceed."""
    below = BINS
    while True:
        into, times = 0, 0
        for at in range(len(n.findings)):
            if n.findings[at, 0] > begun and into <= n.findings[at, 1] < below:
                times = times + 1 if n.findings[at, 1] == into else 1
                into = n.findings[at, 1]
        rank -= times
        if rank < 0 or into == 0:
            return into
        below = into


@inner
def count(n: RequiredSlack, j: Judging, at: int, into: int, by: int) -> None:
    """Count the window at a place in a bin, or no longer."""
    if n.ring[WEIGHS, at] == 1:
        n.bins[WEIGHTS, into] += by
    if n.ring[NUMBER, at] > n.marks[ENTERED] - j.lately:
        n.bins[LATELY, into] += by


@inner
def clear(n: RequiredSlack, j: Judging, at: int) -> None:
    """Give the place of a window to another one."""
    if n.ring[NUMBER, at] == NO_LINE:
        return
    count(n, j, at, n.ring[INTO, at], -1)
    n.marks[HELD] -= n.ring[WEIGHS, at]
    if n.ring[NUMBER, at] > n.marks[ENTERED] - j.lately:
        n.marks[HELD_LATELY] -= 1
    if n.ring[VERDICT, at] == FAILED and n.ring[NUMBER, at] > n.marks[CLOSED] - j.period:
        n.marks[SPENT] -= 1
    n.ring[NUMBER, at] = NO_LINE


@inner
def put_in(n: RequiredSlack, j: Judging, window: int) -> None:
    """A window enters, as far as is known without a need."""
    at = window % n.ring.shape[1]
    clear(n, j, at)
    n.ring[NUMBER, at], n.ring[INTO, at], n.ring[VERDICT, at], n.ring[WEIGHS, at] = window, 0, UNKNOWN, 1
    # One that got its first tuple after it should have been closed was never emitted.
    n.ring[MET, at] = 0 if window <= n.marks[CLOSED] else OPEN
    count(n, j, at, 0, 1)
    n.marks[HELD] += 1
    n.marks[HELD_LATELY] += 1 if window > n.marks[ENTERED] - j.lately else 0
    n.marks[KNOWN] += 1


@in_place
def enter(w: Watch, b: WindowLedger, n: RequiredSlack, j: Judging, last: int) -> None:
    """The windows up to `last` have ended."""
    size = n.ring.shape[1]
    first = max(n.marks[ENTERED] + 1, last - size + 1)
    if first > last:
        return
    newest = newest_piece(w, b.totals, first)
    for window in range(first, last + 1):
        # A window leaves when its place is wanted, whether there are tuples in between or not.
        make_way(n, j, window)
        newest = newest_with(w, b, window, newest)
        if newest >= 2 * window:
            put_in(n, j, window)


@inner
def enter_those(n: RequiredSlack, j: Judging, last: int, filled: Words) -> None:
    """The windows up to `last` have ended; these of them, in their order, have tuples."""
    at = 0
    for window in range(max(n.marks[ENTERED] + 1, last - n.ring.shape[1] + 1), last + 1):
        make_way(n, j, window)
        while at < len(filled) and filled[at] < window:
            at += 1
        if at < len(filled) and filled[at] == window:
            put_in(n, j, window)


@inner
def make_way(n: RequiredSlack, j: Judging, window: int) -> None:
    """A window has ended: others leave the ring, or the last periods."""
    size = n.ring.shape[1]
    clear(n, j, window % size)
    leaving = (window - j.lately) % size
    if n.ring[NUMBER, leaving] == window - j.lately:
        n.bins[LATELY, n.ring[INTO, leaving]] -= 1
        n.marks[HELD_LATELY] -= 1
    n.marks[ENTERED] = window


@inner
def newest_with(w: Watch, b: WindowLedger, window: int, newest: int) -> int:
    """The newest piece with tuples up to the end of a window, by that of the window before it."""
    # A slide adds two pieces.
    for piece in range(last_piece(w, window) - 1, last_piece(w, window) + 1):
        if place_of(b.totals, piece) != NONE:
            newest = max(newest, piece)
    return newest


@in_place
def put_right(
    w: Watch, b: WindowLedger, n: RequiredSlack, j: Judging, allowed: Floats, total: Floats, missing: Floats
) -> int:
    """Late tuples have come for some windows: what do these need now? Returns the largest need that has changed."""
    found = 0
    for i in range(b.marks[CHANGED]):
        window = b.changed[i]
        b.is_changed[window & (len(b.is_changed) - 1)] = 0
        if window > n.marks[ENTERED] - n.ring.shape[1]:
            found = max(found, put_one_right(n, j, window, needed_bin(w, b, window, allowed, total, missing)))
    b.marks[CHANGED] = 0
    return found


@inner
def put_one_right(n: RequiredSlack, j: Judging, window: int, into: int) -> int:
    """What a window needs is in this bin; returns it where that is new, else 0."""
    at, found = window % n.ring.shape[1], 0
    if n.ring[NUMBER, at] != window:
        put_in(n, j, window)
    if into != n.ring[INTO, at]:
        count(n, j, at, n.ring[INTO, at], -1)
        count(n, j, at, into, 1)
        n.marks[HIGHEST] = max(n.marks[HIGHEST], into)
        found = into
        n.ring[INTO, at] = into
    judge_one(n, j, at)
    return found


@inner
def judge_one(n: RequiredSlack, j: Judging, at: int) -> None:
    """Count a closed window as failed if it needed more than it got."""
    if n.ring[MET, at] != OPEN and n.ring[INTO, at] > n.ring[MET, at] and n.ring[VERDICT, at] != FAILED:
        back = step_down(j) if n.ring[VERDICT, at] == FINISHED else 0.0
        n.scalars[MARGIN] = min(LARGEST_MARGIN, n.scalars[MARGIN] + j.gain + back)
        n.ring[VERDICT, at] = FAILED
        n.marks[SPENT] += 1 if n.ring[NUMBER, at] > n.marks[CLOSED] - j.period else 0


@inner
def step_down(j: Judging) -> float:
    """By how much a window that was fine lowers the margin."""
    return j.gain * j.aim / (1.0 - j.aim)


@in_place
def close(n: RequiredSlack, j: Judging, last: int, met: int) -> None:
    """The windows up to `last` are closed, under a slack that met all needs up to a bin."""
    size = n.ring.shape[1]
    for window in range(max(n.marks[CLOSED] + 1, last - size + 1), last + 1):
        leaving = (window - j.period) % size
        if n.ring[NUMBER, leaving] == window - j.period and n.ring[VERDICT, leaving] == FAILED:
            n.marks[SPENT] -= 1
        n.marks[CLOSED] = window
        at = window % size
        if n.ring[NUMBER, at] == window:
            n.ring[MET, at] = met
            judge_one(n, j, at)


@in_place
def judge(n: RequiredSlack, j: Judging, last: int) -> None:
    """Closed windows up to `last` have settled: those that have not failed are fine."""
    last = min(last, n.marks[CLOSED])
    for window in range(max(n.marks[JUDGED] + 1, last - n.ring.shape[1] + 1), last + 1):
        at = window % n.ring.shape[1]
        if n.ring[NUMBER, at] == window and n.ring[VERDICT, at] == UNKNOWN:
            n.ring[VERDICT, at] = FINISHED
            n.scalars[MARGIN] = max(0.0, n.scalars[MARGIN] - step_down(j))
    n.marks[JUDGED] = max(n.marks[JUDGED], last)


@in_place
def forget(n: RequiredSlack, j: Judging, unit: int) -> None:
    """Blocks before the last periods, of which most windows needed more than these did, were another regime."""
    size = n.ring.shape[1]
    usual = least_bin(n, LATELY, j, unit, j.delta)
    other = bin_met_by(int(j.times * edge_of(usual, unit)), unit)
    above = 0
    for b in range(other + 1, n.marks[HIGHEST] + 1):
        above += n.bins[WEIGHTS, b] - n.bins[LATELY, b]
    if 2 * above < j.stride:
        return
    oldest, newest = n.marks[ENTERED] - size + 1, n.marks[ENTERED] - j.lately
    for first in range(oldest // j.stride * j.stride, newest - j.block + 1, j.stride):
        held, above = 0, 0
        for window in range(first, first + j.block):
            at = window % size
            if n.ring[NUMBER, at] == window and n.ring[WEIGHS, at] == 1:
                held += 1
                above += 1 if n.ring[INTO, at] > other else 0
        if 2 * above > held:
            begin, end = first, first + j.block
            # Up to where the regime began and ended.
            while begin > oldest and needs_more(n, begin - 1, usual):
                begin -= 1
            while end <= newest and needs_more(n, end, usual):
                end += 1
            for window in range(begin, end):
                at = window % size
                if n.ring[NUMBER, at] == window and n.ring[WEIGHS, at] == 1:
                    n.bins[WEIGHTS, n.ring[INTO, at]] -= 1
                    n.ring[WEIGHS, at] = 0
                    n.marks[HELD] -= 1


@inner
def needs_more(n: RequiredSlack, window: int, than: int) -> bool:
    """Whether a window is remembered and needed more than a bin."""
    at = window % n.ring.shape[1]
    return n.ring[NUMBER, at] == window and n.ring[WEIGHS, at] == 1 and n.ring[INTO, at] > than

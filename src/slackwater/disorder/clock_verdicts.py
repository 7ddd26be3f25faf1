"""What becomes of a tuple that is too far ahead: admitted, rejected, or kept until others have come.

Invariant: the evidence is counts of arrivals by epoch, so a verdict does not depend on their order inside of one.
"""

from __future__ import annotations

from slackwater.core.batch import Words
from slackwater.core.jit import compiled, inner
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.crowd import CLOCK, Crowd, patience

# Rows of the evidence: of the arrivals since a tuple was kept back, those that came along and those that did not; and
# whether they were counted in a later epoch than its own.
ALONG, AGAINST, LATER = range(3)
CLEARLY = 15
"""Of the epoch in which the input ends, so many times as many must be against a tuple ahead."""
ADMITTED, REJECTED, PENDING = range(3)


@inner
def verdict_on(c: Crowd, t: int, m: int, evidence: Words, at: int, end: bool, max_ahead: int, tolerance: int) -> int:
    """What becomes of a tuple that is, or would be, kept pending."""
    clock = c.marks[m, CLOCK]
    if clock == BEFORE_ALL:
        return ADMITTED if end else PENDING
    if t <= clock + max_ahead:
        return ADMITTED
    if end:
        # Nothing is spoilt any more; but of the same epoch it is not known what came after it.
        along = evidence[ALONG, at]
        many = 0 if evidence[LATER, at] == 1 else 1 if along == 0 else CLEARLY * (1 + along)
        return REJECTED if evidence[AGAINST, at] > max(many, evidence[ALONG, at]) else ADMITTED
    voted = evidence[LATER, at] == 1 and evidence[AGAINST, at] >= patience(c, m, tolerance)
    return REJECTED if voted else PENDING


@compiled
def verdicts(
    c: Crowd, ts: Words, member: Words, before: int, evidence: Words, counts: Words, end: bool, max_ahead: int,
    tolerance: int,
) -> Words:  # fmt: skip
    """What becomes of each tuple after an epoch; the first `before` were pending already."""
    found = member.copy()
    for i in range(len(ts)):
        m = member[i]
        weigh(evidence, i, counts[0, m], counts[1, m], i < before)
        found[i] = verdict_on(c, ts[i], m, evidence, i, end, max_ahead, tolerance)
    return found


@inner
def weigh(evidence: Words, at: int, along: int, against: int, later: bool) -> None:
    """Count the arrivals of an epoch for and against a pending tuple; of its own epoch it is one itself."""
    evidence[ALONG, at] += along if later else max(0, along - 1)
    evidence[AGAINST, at] += against
    if later and along + against > 0:
        evidence[LATER, at] = 1

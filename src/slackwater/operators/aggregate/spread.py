"""Variance in compiled code: of floats by deviations from the mean, of integers exactly.

Invariants. Floats: a state is (count, mean, sum of squared deviations). Where a deviation is so large that its square
might not be a float, that sum is kept as the negative of its 2**-1200-th part; a sum of squares has no use for its
sign. Integers: a state is (count, sum in 128 bits, sum of squares in 192 bits), so nothing is ever rounded until the
variance is asked for.

References: Chan, Golub, LeVeque 1983.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import compiled, inner

FLOAT_WORDS, INT_WORDS = 3, 6
FAR = 2.0**500
"""From here on a squared deviation, times a count, may be too large."""
STEP = 2.0**-600
"""Squares of far deviations are kept in this unit, squared."""
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
NO, ONE = np.uint64(0), np.uint64(1)


@inner
def add_moments(floats: Floats, r: int, at: int, n: float, mean: float, squares: float) -> None:
    """Chan's rule for count, mean and sum of squared deviations."""
    if n == 0.0:
        return
    old = floats[r, at]
    total = old + n
    delta = mean - floats[r, at + 1]
    if abs(delta) < FAR and floats[r, at + 2] >= 0.0 and squares >= 0.0:
        floats[r, at + 1] += delta * (n / total)
        floats[r, at + 2] += squares + delta * delta * (old * n / total)
        floats[r, at] = total
    else:
        add_far_moments(floats, r, at, n, mean, squares)


@inner
def add_far_moments(floats: Floats, r: int, at: int, n: float, mean: float, squares: float) -> None:
    """The same where deviations are far, or something is not finite: then there is no variance."""
    old = floats[r, at]
    total = old + n
    floats[r, at] = total
    if old == 0.0:
        floats[r, at + 1] = mean
        floats[r, at + 2] = squares if np.isfinite(mean) else np.nan
        return
    # The difference of two floats may be none; half of it is.
    delta = (0.5 * mean - 0.5 * floats[r, at + 1]) * (2.0 * STEP)
    far = in_steps(floats[r, at + 2]) + in_steps(squares) + delta * delta * (old * n / total)
    floats[r, at + 1] = floats[r, at + 1] * (old / total) + mean * (n / total)
    floats[r, at + 2] = -far if np.isfinite(floats[r, at + 1]) else np.nan


@inner
def in_steps(squares: float) -> float:
    """A sum of squares in units of STEP squared."""
    return -squares if squares < 0.0 else squares * STEP * STEP


@inner
def add_square(ints: Words, r: int, at: int, value: int) -> None:
    """Count an integer, its value and its square."""
    ints[r, at] += 1
    word = np.uint64(value)
    size = ~word + ONE if value < 0 else word
    low, high = product(size, size)
    add_words(ints, r, at + 1, word, np.uint64(value >> 63), NO, 2)
    add_words(ints, r, at + 3, low, high, NO, 3)


@inner
def add_squares(ints: Words, r: int, at: int, others: Words, o: int, there: int) -> None:
    """Combine the state of other integers in."""
    ints[r, at] += others[o, there]
    a, b, c = others[o, there + 3], others[o, there + 4], others[o, there + 5]
    add_words(ints, r, at + 1, np.uint64(others[o, there + 1]), np.uint64(others[o, there + 2]), NO, 2)
    add_words(ints, r, at + 3, np.uint64(a), np.uint64(b), np.uint64(c), 3)


@inner
def add_words(ints: Words, r: int, at: int, a: np.uint64, b: np.uint64, c: np.uint64, count: int) -> None:
    """Add an integer of two or three words, the lowest first."""
    first = np.uint64(ints[r, at]) + a
    ints[r, at] = np.int64(first)
    carry = ONE if first < a else NO
    second = np.uint64(ints[r, at + 1]) + b
    more = ONE if second < b else NO
    second = second + carry
    more = more + (ONE if second < carry else NO)
    ints[r, at + 1] = np.int64(second)
    if count == 3:
        ints[r, at + 2] = np.int64(np.uint64(ints[r, at + 2]) + c + more)


@inner
def product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """All 128 bits of a product: its low and its high word."""
    a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
    low, middle = a0 * b0, a1 * b0
    middle += low >> HALF
    other = a0 * b1 + (middle & LOW)
    return (other << HALF) | (low & LOW), a1 * b1 + (middle >> HALF) + (other >> HALF)


@compiled
def variances(state: Words, at: int) -> Floats:
    """The sample variance of the integers of every line: (n Σx² - (Σx)²) / (n (n - 1)), rounded once.

    >>> count, total, squares = 2, 4 + 7, 16 + 49
    >>> variances(np.array([[count, total, 0, squares, 0, 0]]), 0).tolist()
    [4.5]
    """
    found = np.empty(len(state), np.float64)
    for i in range(len(state)):
        n = np.uint64(state[i, at])
        t0, t1 = np.uint64(state[i, at + 1]), np.uint64(state[i, at + 2])
        if state[i, at + 2] < 0:
            t1 = ~t1 + (ONE if t0 == NO else NO)
            t0 = ~t0 + ONE
        # n Σx², in four words.
        a0, c0 = product(n, np.uint64(state[i, at + 3]))
        p, c1 = product(n, np.uint64(state[i, at + 4]))
        a1 = p + c0
        c1 = c1 + (ONE if a1 < p else NO)
        p, c2 = product(n, np.uint64(state[i, at + 5]))
        a2 = p + c1
        a3 = c2 + (ONE if a2 < p else NO)
        # (Σx)², in four words; the middle product counts twice.
        b0, d0 = product(t0, t0)
        m0, m1 = product(t0, t1)
        b2, b3 = product(t1, t1)
        b1 = d0
        for _ in range(2):
            b1 = b1 + m0
            carry = m1 + (ONE if b1 < m0 else NO)
            b2 = b2 + carry
            b3 = b3 + (ONE if b2 < carry else NO)
        # Their difference is never negative.
        under = ONE if a0 < b0 else NO
        w0 = a0 - b0
        w1 = a1 - b1 - under
        under = ONE if a1 < b1 or (a1 == b1 and under == ONE) else NO
        w2 = a2 - b2 - under
        under = ONE if a2 < b2 or (a2 == b2 and under == ONE) else NO
        w3 = a3 - b3 - under
        total = ((np.float64(w3) * 2.0**64 + np.float64(w2)) * 2.0**64 + np.float64(w1)) * 2.0**64 + np.float64(w0)
        count = np.float64(state[i, at])
        found[i] = total / count / (count - 1.0) if count > 1.0 else np.nan
    return found

"""How many different values there are, about: a HyperLogLog sketch in the words of a partial result.

A value is hashed. Some bits of the hash choose one of `2**bits` registers, a byte each; it keeps the most zeros that
the other bits of any hash have ended with, and one more. So a sketch has one size, however many values there are, and
two of them are combined register by register.

Invariant: a sketch depends on which values there were, and on nothing else: not on their order, how often they came,
how they were cut into panes and shards. Registers are at most 61, so a byte has its sign bit to spare.

References: Flajolet et al., HyperLogLog, AofA 2007; Ertl, New cardinality estimation algorithms for HyperLogLog
sketches, 2017, algorithm 6 (no tables, and no case of its own for few values).
"""

from __future__ import annotations

import math

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.hash_table import mix
from slackwater.core.jit import inner

FEWEST_BITS, MOST_BITS = 4, 14
DEFAULT_ERROR = 0.05
"""As in Spark."""
MOST = 2.0**62
_HASH_BITS = 64
_SIGNS = np.uint64(0x8080_8080_8080_8080)
_BYTE, _SEVEN = np.uint64(0xFF), np.uint64(7)


def bits_for(error: float) -> int:
    """The bits that choose a register, for a standard error of this share of the truth; as many as Spark takes.

    >>> bits_for(0.05), bits_for(0.01)
    (9, 14)
    """
    return max(FEWEST_BITS, math.ceil(2 * math.log2(1.106 / error)))


def words_of(bits: int) -> int:
    """The words that the registers have.

    >>> words_of(9)
    64
    """
    return 1 << (bits - 3)


@inner
def add_value(ints: Words, r: int, at: int, bits: int, word: int) -> None:
    """A value has come."""
    hashed = np.uint64(mix(word))
    register = hashed & np.uint64((1 << bits) - 1)
    rest, zeros = hashed >> np.uint64(bits), 1
    while zeros <= _HASH_BITS - bits and rest & np.uint64(1) == np.uint64(0):
        rest >>= np.uint64(1)
        zeros += 1
    place, shift = at + np.int64(register >> np.uint64(3)), (register & _SEVEN) << np.uint64(3)
    found = np.uint64(ints[r, place])
    if np.uint64(zeros) > (found >> shift) & _BYTE:
        ints[r, place] = np.int64((found & ~(_BYTE << shift)) | (np.uint64(zeros) << shift))


@inner
def add_sketch(ints: Words, r: int, to: int, bits: int, others: Words, o: int, at: int) -> None:
    """All values of another sketch have come: of every byte the greater, eight at once."""
    for w in range(1 << (bits - 3)):
        mine, other = np.uint64(ints[r, to + w]), np.uint64(others[o, at + w])
        # A sign bit is left where mine is not less: a byte takes nothing from the next.
        kept = ((((mine | _SIGNS) - other) & _SIGNS) >> _SEVEN) * _BYTE
        ints[r, to + w] = np.int64((mine & kept) | (other & ~kept))


def estimates(sketches: Words) -> Words:
    """How many different values each sketch has seen, about; one a line.

    >>> estimates(np.zeros((1, 64), np.int64)).tolist()
    [0]
    """
    lines, registers = len(sketches), 8 * sketches.shape[1]
    left = _HASH_BITS - (registers.bit_length() - 1)
    values = np.ascontiguousarray(sketches).view(np.uint8).astype(np.int64)
    # How often every value occurs in the registers of each.
    spread = (values + (left + 2) * np.arange(lines)[:, None]).ravel()
    counts = np.bincount(spread, minlength=lines * (left + 2)).reshape(lines, left + 2).astype(np.float64)
    total = registers * _tau(1 - counts[:, left + 1] / registers)
    for value in range(left, 0, -1):
        total = 0.5 * (total + counts[:, value])
    empty = counts[:, 0] / registers
    with np.errstate(divide="ignore"):
        total += registers * _sigma(empty)
        found = registers * registers / (2 * math.log(2) * total)
    return np.rint(np.where(empty == 1, 0.0, np.minimum(found, MOST))).astype(np.int64)


def _sigma(share: Floats) -> Floats:
    """What registers without a value add."""
    power, term, found = np.where(share == 1, 0.0, share), 1.0, np.where(share == 1, 0.0, share)
    while True:
        power = power * power
        more = found + power * term
        term += term
        if np.array_equal(more, found):
            return found
        found = more


def _tau(share: Floats) -> Floats:
    """What registers at their end add."""
    root, term, found = share, 1.0, np.where((share == 0) | (share == 1), 0.0, 1 - share)
    while True:
        root = np.sqrt(root)
        term *= 0.5
        more = found - np.where((share == 0) | (share == 1), 0.0, (1 - root) ** 2 * term)
        if np.array_equal(more, found):
            return found / 3
        found = more

"""HyperLogLog, slow and obvious: one hash after the other, registers in a list, the estimate as it is published.

Invariant: shares no code with the operator.

References: Flajolet et al., AofA 2007; Ertl 2017, algorithm 6.
"""

from __future__ import annotations

import math

from slackwater.core.schema import Kind
from tests.kit.words import decode

ALL = 2**64 - 1


def estimate(words: list[int], kind: Kind, error: float) -> int:
    """How many different values there are, about.

    >>> estimate([7, 7, 9], Kind.INT, 0.05)
    2
    """
    bits = math.ceil(2 * math.log2(1.106 / error))
    registers = [0] * 2**bits
    for word in words:
        value = decode(word, kind)
        if value is None:
            continue
        hashed = _hash(0 if kind is Kind.FLOAT and value == 0 else word)
        rest = f"{hashed >> bits:0{64 - bits}b}"
        zeros = len(rest) - len(rest.rstrip("0")) + 1
        registers[hashed % 2**bits] = max(registers[hashed % 2**bits], zeros)
    m, q = 2**bits, 64 - bits
    if not any(registers):
        return 0
    total = m * _tau(1 - registers.count(q + 1) / m)
    for k in range(q, 0, -1):
        total = 0.5 * (total + registers.count(k))
    total += m * _sigma(registers.count(0) / m)
    return round(m * m / (2 * math.log(2) * total))


def _hash(word: int) -> int:
    """The finalizer of splitmix64."""
    z = (word + 0x9E3779B97F4A7C15) & ALL
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ALL
    return z ^ (z >> 31)


def _sigma(x: float) -> float:
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z, y = z + x * y, y + y
    return z


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0
    y, z, before = 1.0, 1 - x, -1.0
    while z != before:
        x, before, y = math.sqrt(x), z, 0.5 * y
        z -= (1 - x) ** 2 * y
    return z / 3

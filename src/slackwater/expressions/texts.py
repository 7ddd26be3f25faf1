"""Texts by their codes: the bytes of every distinct text of a query, in one segment of memory.

A code is a hash of the UTF-8 bytes and of a secret, so it is the same in every process that has the secret, and a text
that was let go and comes again has the code it had. Compiled code reads the bytes by their address.

Invariant: a code stands for one text at a time. Two texts of one code are told apart by their bytes, and the second one
is not taken in. Entries stand in the order in which their texts came, and what is written of one never changes; so a
dictionary of the first entries stays valid while others come. Whoever hands out an address keeps what it points to
alive, and in its place, until the call is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_WORD


def _loading(bits: int, returned: Any) -> Callable[[int], Any]:
    """For compiled code: what reads so many bits at an address, at whatever byte it begins."""

    def at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            word = builder.load(pointer, align=1)
            return word if bits == 64 else builder.zext(word, ir.IntType(64))

        return returned(types.int64), generate

    return cast("Callable[[int], Any]", intrinsic(at))


word_at: Callable[[int], np.uint64] = _loading(64, types.uint64)
"""Eight bytes as an unsigned number, the first one the smallest."""
number_at: Callable[[int], int] = _loading(64, types.int64)
"""Eight bytes as a signed number."""
half_at: Callable[[int], np.uint64] = _loading(32, types.uint64)
"""Four bytes as an unsigned number."""
byte_at: Callable[[int], np.uint64] = _loading(8, types.uint64)
"""One byte as an unsigned number."""
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int32]
"""Numbers of entries."""

MARK = 1 << 61
"""The highest bit of every code. Times, numbers of records and counts are smaller, so a word that has it and no higher
one is nearly always a code: what looks for codes among the words of a state passes over all others without asking."""
EMPTY = 0
"""A slot without an entry; one with an entry holds its number, counted from 1."""

COUNT, USED, SECRET = range(3)
"""Entries; bytes of their texts; what the hash begins with."""
# What compiled code is told of a table by one address.
AT_SLOTS, MASK, AT_CODES, AT_ENDS, AT_DATA = range(0, 40, 8)


class Entries(NamedTuple):
    """The arrays of a table, for compiled code."""

    slots: Numbers
    codes: Words
    ends: Words
    """Where the text of an entry ends; entry i begins at place i, and ends at i + 1."""
    data: Bytes
    scalars: Words


@inner
def mixed(z: np.uint64) -> np.uint64:
    """A number of 64 bits, well stirred; no two numbers give the same (the finalizer of splitmix64)."""
    z += np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def last_at(address: int, n: int) -> np.uint64:
    """The last bytes of n as one number: eight where there are so many, else all."""
    if n >= 8:
        return word_at(address + n - 8)
    if n >= 4:
        return half_at(address) | half_at(address + n - 4) << np.uint64(32)
    if n == 0:
        return np.uint64(0)
    middle = byte_at(address + (n >> 1)) << np.uint64(8)
    return byte_at(address) | middle | byte_at(address + n - 1) << np.uint64(16)


@inner
def code_of(address: int, n: int, secret: int) -> int:
    """The code of the n bytes at an address."""
    # It is mixed again with every eight bytes: who does not know it cannot make two texts clash.
    h = mixed(np.uint64(secret) ^ np.uint64(n))
    for i in range(0, n - 8, 8):
        h = mixed(h ^ word_at(address + i))
    h = mixed(h ^ last_at(address, n))
    return int(np.int64(h >> np.uint64(3))) | MARK


@inner
def same(a: int, b: int, n: int) -> bool:
    """Whether the n bytes at two addresses are equal."""
    for i in range(0, n - 8, 8):
        if word_at(a + i) != word_at(b + i):
            return False
    return last_at(a, n) == last_at(b, n)


@inner
def find(t: Entries, code: int) -> int:
    """The entry of a code, or -1."""
    mask = len(t.slots) - 1
    slot = code & mask
    while t.slots[slot] != EMPTY:
        if t.codes[t.slots[slot] - 1] == code:
            return t.slots[slot] - 1
        slot = (slot + 1) & mask
    return -1


@inner
def enter(t: Entries, code: int) -> None:
    """The next entry has this code."""
    mask = len(t.slots) - 1
    slot = code & mask
    while t.slots[slot] != EMPTY:
        slot = (slot + 1) & mask
    t.codes[t.scalars[COUNT]] = code
    t.scalars[COUNT] += 1
    t.slots[slot] = t.scalars[COUNT]


@in_place
def take_in(t: Entries, ends: Words, data: int, null: Flags, begin: int, codes: Words, clash: Flags) -> int:
    """Give texts their codes, from one on, keep those that are new, and mark those whose code stands for another text;
    the one it stops at for lack of room."""
    bytes_at = t.data.ctypes.data
    for i in range(begin, len(codes)):
        if null[i]:
            codes[i] = NULL_WORD
            continue
        at, n = data + ends[i], ends[i + 1] - ends[i]
        code = code_of(at, n, t.scalars[SECRET])
        e = find(t, code)
        if e >= 0:
            if t.ends[e + 1] - t.ends[e] != n or not same(at, bytes_at + t.ends[e], n):
                clash[i] = True
        else:
            used = t.scalars[USED]
            if t.scalars[COUNT] == len(t.codes) or used + n > len(t.data):
                return i
            for b in range(n):
                t.data[used + b] = byte_at(at + b)
            t.scalars[USED] = used + n
            t.ends[t.scalars[COUNT] + 1] = used + n
            enter(t, code)
        codes[i] = code
    return len(codes)


@in_place
def find_all(t: Entries, codes: Words, entry: Numbers) -> int:
    """The entries of codes, -1 for a null; how many codes have none."""
    unknown = 0
    for i in range(len(codes)):
        entry[i] = -1
        if codes[i] != NULL_WORD:
            entry[i] = find(t, codes[i])
            if entry[i] < 0:
                unknown += 1
    return unknown


@in_place
def lay_out(t: Entries, entry: Numbers, ends: Words) -> None:
    """Where the texts of entries end, one behind the other."""
    ends[0] = 0
    for i in range(len(entry)):
        e = entry[i]
        ends[i + 1] = ends[i] + (0 if e < 0 else t.ends[e + 1] - t.ends[e])


@in_place
def gather(t: Entries, entry: Numbers, ends: Words, data: Bytes) -> None:
    """The texts of entries, one behind the other."""
    for i in range(len(entry)):
        if entry[i] >= 0:
            begin, to = t.ends[entry[i]], ends[i]
            for b in range(ends[i + 1] - to):
                data[to + b] = t.data[begin + b]


@in_place
def mark(t: Entries, words: Words, marks: Flags) -> None:
    """Mark the entries whose codes are among words of any meaning."""
    for i in range(len(words)):
        if words[i] >> 61 == 1:
            e = find(t, words[i])
            if e >= 0:
                marks[e] = True


@in_place
def put_in(t: Entries, codes: Words, lengths: Words) -> None:
    """Enter codes whose texts are in place."""
    for i in range(len(codes)):
        t.ends[t.scalars[COUNT] + 1] = t.ends[t.scalars[COUNT]] + lengths[i]
        enter(t, codes[i])
    t.scalars[USED] = t.ends[t.scalars[COUNT]]


@inner
def entry_at(table: int, code: int) -> int:
    """The entry of a code in the table at an address, or -1."""
    slots, mask, codes = number_at(table + AT_SLOTS), number_at(table + MASK), number_at(table + AT_CODES)
    slot = code & mask
    while half_at(slots + 4 * slot) != EMPTY:
        e = int(np.int64(half_at(slots + 4 * slot))) - 1
        if number_at(codes + 8 * e) == code:
            return e
        slot = (slot + 1) & mask
    return -1


@in_place
def before(table: int, a: int, b: int) -> bool:
    """Whether the text of code a is smaller than that of b, by its bytes; without a table codes are the order."""
    if table == 0:
        return a < b
    if a == b:
        return False
    e, f = entry_at(table, a), entry_at(table, b)
    if e < 0 or f < 0:
        return a < b
    ends, data = number_at(table + AT_ENDS), number_at(table + AT_DATA)
    x, y = data + number_at(ends + 8 * e), data + number_at(ends + 8 * f)
    n, m = data + number_at(ends + 8 * (e + 1)) - x, data + number_at(ends + 8 * (f + 1)) - y
    for i in range(min(n, m)):
        if byte_at(x + i) != byte_at(y + i):
            return bool(byte_at(x + i) < byte_at(y + i))
    return n < m

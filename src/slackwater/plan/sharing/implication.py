"""Which conjunct follows from which: `x > 10` implies `x > 5`, and `x = 3` implies `x IN (1, 2, 3)`.

A conjunct that compares one value with constants is TRUE in a region: segments of known values, and null or not. One
implies the other where its region lies inside that of the other. The value may be any expression, as long as both
conjuncts have the same one. Beyond regions, an OR follows from each of its parts, and implies what all its parts imply.

Invariant: sound, not complete. If p is said to imply q, then q is TRUE for every tuple for which p is.

References: 004 §5.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slackwater.core.schema import Kind
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.plan.sharing.conjuncts import NEVER, Conjunct
from slackwater.plan.sharing.normal_form import COUNTED, FALSE, TURNED, can_fail, key_of

Cut = tuple[Any, ...]
"""A place between two values: right before one, right behind one, before all or behind all. Cuts are in order."""
BEFORE_ALL, BEHIND_ALL = (-1,), (1,)


@dataclass(frozen=True)
class Region:
    """The values for which a conjunct is TRUE."""

    cuts: tuple[Cut, ...]
    """Inside from every first to the second of two, in order."""
    null: bool = False

    def __contains__(self, other: Region) -> bool:
        if len(self.cuts) == len(other.cuts) == 2:
            # One segment each, as most conditions have.
            return other.null <= self.null and self.cuts[0] <= other.cuts[0] and other.cuts[1] <= self.cuts[1]
        return other.null <= self.null and _met(self.cuts, other.cuts, False) == other.cuts

    @property
    def empty(self) -> bool:
        return not self.cuts and not self.null

    def both(self, other: Region) -> Region:
        """The values of both regions."""
        return Region(_met(self.cuts, other.cuts, False), self.null and other.null)

    def either(self, other: Region) -> Region:
        """The values of one region or the other."""
        return Region(_met(self.cuts, other.cuts, True), self.null or other.null)

    def other_values(self) -> Region:
        """The known values that are not inside."""
        cuts = list(self.cuts)
        cuts = cuts[1:] if cuts[:1] == [BEFORE_ALL] else [BEFORE_ALL, *cuts]
        return Region(tuple(cuts[:-1] if cuts[-1:] == [BEHIND_ALL] else [*cuts, BEHIND_ALL]))


KNOWN = Region((BEFORE_ALL, BEHIND_ALL))
NULL = Region((), null=True)
EVERYTHING = Region(KNOWN.cuts, null=True)


def implies(first: Conjunct, second: Conjunct) -> bool:
    """Whether the second is TRUE wherever the first is.

    >>> from slackwater.plan.sharing.conjuncts import conjuncts_of
    >>> x = Column(0, "x", Kind.INT)
    >>> ten, five = (conjuncts_of([Call(">", (x, Literal(at, Kind.INT)), Kind.BOOL)])[0] for at in (10, 5))
    >>> implies(ten, five), implies(five, ten)
    (True, False)
    """
    one, other = _region_of(first), _region_of(second)
    if one is not None and other is not None:
        # This is so for most pairs, of hundreds of queries.
        return one[0] == other[0] and one[1] in other[1]
    return _follows(first.expr, second.expr)


def implied(by: Sequence[Conjunct], conjunct: Conjunct) -> bool:
    """Whether a conjunct is TRUE wherever all the others are; two of them may say it only together."""
    return bool(all_implied(by, (conjunct,)))


def all_implied(by: Sequence[Conjunct], conjuncts: Iterable[Conjunct]) -> list[Conjunct]:
    """Those of the conjuncts that are TRUE wherever all that are given in `by` are."""
    regions, others = _met_by(tuple(by))
    found = []
    for conjunct in conjuncts:
        target, left = _region_of(conjunct), by
        if target is not None:
            met, left = regions.get(target[0]), others
            if met is not None and met in target[1]:
                found.append(conjunct)
                continue
        if any(implies(one, conjunct) for one in left):
            found.append(conjunct)
    return found


@lru_cache(maxsize=1 << 12)
def _met_by(conjuncts: tuple[Conjunct, ...]) -> tuple[dict[str, Region], list[Conjunct]]:
    """Where all of these are TRUE, by the value that they compare; and those that are not so simple."""
    regions: dict[str, Region] = {}
    others = []
    for one in conjuncts:
        found = _region_of(one)
        if found is None:
            others.append(one)
        else:
            regions[found[0]] = regions.get(found[0], EVERYTHING).both(found[1])
    return regions, others


def value_compared(conjunct: Conjunct) -> str | None:
    """The value that a conjunct compares with constants; None where it is not so simple."""
    found = _region_of(conjunct)
    return None if found is None else found[0]


def reduced(conjuncts: Sequence[Conjunct]) -> tuple[Conjunct, ...]:
    """The conjuncts without those that the others imply; NEVER where they cannot all be true."""
    regions, _ = _met_by(tuple(conjuncts))
    if any(region.empty for region in regions.values()):
        return (NEVER,)
    kept = list(conjuncts)
    for one in conjuncts:
        others = [other for other in kept if other != one]
        if implied(others, one):
            kept = others
    return tuple(kept)


@lru_cache(maxsize=1 << 14)
def _region_of(conjunct: Conjunct) -> tuple[str, Region] | None:
    return _region(conjunct.expr)


def _follows(first: Expr, second: Expr) -> bool:
    if key_of(first) == key_of(second) or first == FALSE:
        return True
    one, other = _region(first), _region(second)
    if one is not None and other is not None and one[0] == other[0] and one[1] in other[1]:
        return True
    if can_fail(second):
        # Of what it reads more than the first, nobody knows whether it fails.
        return False
    if parts := _parts("or", first):
        return all(_follows(part, second) for part in parts)
    if parts := _parts("and", second):
        return all(_follows(first, part) for part in parts)
    if any(_follows(part, second) for part in _parts("and", first)):
        return True
    return any(_follows(first, part) for part in _parts("or", second))


def _parts(op: str, expr: Expr) -> tuple[Expr, ...]:
    """The parts of an AND or an OR, none of anything else."""
    return expr.args if isinstance(expr, Call) and expr.op == op else ()


def _region(expr: Expr) -> tuple[str, Region] | None:
    """What a conjunct in normal form compares, and the values for which it is TRUE; None where it is not so simple."""
    if isinstance(expr, Literal):
        return None
    if isinstance(expr, Column):
        return key_of(expr), _point(True, Kind.BOOL)
    args, op = expr.args, expr.op
    if op in TURNED and isinstance(args[1], Literal) and args[1].value is not None:
        return key_of(args[0]), _compared(op, args[1])
    if op == "in":
        return key_of(args[0]), _among(args[1:])
    if op == "is_null":
        return key_of(args[0]), NULL
    if op in ("or", "and"):
        return _united(op, [_region(arg) for arg in args])
    if op == "not":
        return _denied(args[0])
    return key_of(expr), _point(True, Kind.BOOL)


def _denied(expr: Expr) -> tuple[str, Region] | None:
    """Where an expression is FALSE."""
    if isinstance(expr, Call) and expr.op == "in":
        unknown = any(isinstance(one, Literal) and one.value is None for one in expr.args[1:])
        return key_of(expr.args[0]), Region(()) if unknown else _among(expr.args[1:]).other_values()
    if isinstance(expr, Call) and expr.op == "is_null":
        return key_of(expr.args[0]), KNOWN
    return key_of(expr), _point(False, Kind.BOOL)


def _united(op: str, found: Sequence[tuple[str, Region] | None]) -> tuple[str, Region] | None:
    """Of several conditions on one value."""
    if not found or any(one is None or found[0] is None or one[0] != found[0][0] for one in found):
        return None
    regions = [one[1] for one in found if one is not None]
    region = regions[0]
    for other in regions[1:]:
        region = region.either(other) if op == "or" else region.both(other)
    assert found[0] is not None, "all are known"
    return found[0][0], region


def _among(choices: Sequence[Expr]) -> Region:
    region = Region(())
    for choice in choices:
        if isinstance(choice, Literal) and choice.value is not None:
            region = region.either(_point(choice.value, choice.kind))
    return region


def _compared(op: str, bound: Literal) -> Region:
    at = _point(bound.value, bound.kind).cuts
    if op == "=":
        return Region(at)
    if op == "<>":
        return Region(at).other_values()
    if op in ("<", "<="):
        return Region((BEFORE_ALL, at[op == "<="]))
    return Region((at[op == ">"], BEHIND_ALL))


def _point(value: Any, kind: Kind) -> Region:
    """One value alone: from right before it to right behind it, which is right before the next where there is one."""
    if kind in COUNTED:
        return Region(((0, value, 0), (0, value + 1, 0)))
    return Region(((0, value, 0), (0, value, 1)))


def _met(one: tuple[Cut, ...], other: tuple[Cut, ...], either: bool) -> tuple[Cut, ...]:
    """The segments in one of two regions, or in both of them."""
    i, j = 0, 0
    found: list[Cut] = []
    while i < len(one) or j < len(other):
        cut = one[i] if j == len(other) or (i < len(one) and one[i] <= other[j]) else other[j]
        i += i < len(one) and one[i] == cut
        j += j < len(other) and other[j] == cut
        # Behind an odd number of its cuts one is inside of a region.
        inside = (i | j) & 1 if either else i & j & 1
        if inside != len(found) & 1:
            found.append(cut)
    return tuple(found)

"""Frozen values that add up over shards and travel as JSON: both follow from the fields of their dataclasses.

Two values are added field by field: numbers add, mappings add by key, tuples follow one another, of two flags one is
enough, and what is None says nothing. A field that adds up otherwise says so in its metadata: `over_shards(max)`.

Invariant: `of_json(type(value), as_json(value)) == value`, also with JSON text between the two. A key that is not known
is passed over, and one that is missing has its default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, reduce
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Combine = Callable[[Any, Any], Any]
Read = Callable[[Any], Any]
_HOW = "over_shards"
_PLAIN = frozenset((int, float, str, bool, NoneType))


def first(one: T, other: T) -> T:
    """Of what all shards know alike; a shard that says nothing of it has an empty tuple or text."""
    return other if one in ((), "") else one


def over_shards(how: Combine) -> dict[str, Combine]:
    """The metadata of a field that adds up in this way; where one of the two is None, it is the other."""
    return {_HOW: how}


class Value:
    """A frozen dataclass of plain data and such values.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Seen(Value):
    ...     rows: int
    ...     clock: int | None = field(default=None, metadata=over_shards(max))
    ...     by_name: Mapping[str, int] = field(default_factory=dict)
    >>> Seen(1, 5, {"a": 1}) + Seen(2, None, {"a": 2, "b": 1})
    Seen(rows=3, clock=5, by_name={'a': 3, 'b': 1})
    """

    def __add__(self, other: Self) -> Self:
        mine, theirs = self.__dict__, other.__dict__
        kind: Any = type(self)
        made: Self = kind(**{name: how(mine[name], theirs[name]) for name, how in _ways(kind)})
        return made


def total(parts: Iterable[T]) -> T | None:
    """The sum of some values; None if there are none.

    >>> total([1, 2, 3]), total([])
    (6, None)
    """
    known = [one for one in parts if one is not None]
    return reduce(added, known) if known else None


def added(one: Any, other: Any) -> Any:
    """The sum of two fields of which nothing else is said."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, bool):
        return one or other
    if isinstance(one, str):
        return one or other
    if isinstance(one, Mapping):
        return {name: added(one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])}
    return one + other


@cache
def _ways(kind: type) -> tuple[tuple[str, Combine], ...]:
    ways = []
    for one in fields(kind):
        how = one.metadata.get(_HOW)
        ways.append((one.name, added if how is None else _of_known(how)))
    return tuple(ways)


def _of_known(how: Combine) -> Combine:
    def combined(one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return how(one, other)

    return combined


def as_json(value: Any) -> Any:
    """A value as JSON has it."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if is_dataclass(kind):
        held = value.__dict__
        return {name: one if type(one := held[name]) in _PLAIN else as_json(one) for name in _names(kind)}
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return value


def of_json(kind: Any, data: Any) -> Any:
    """The inverse of `as_json`.

    >>> of_json(dict[int, tuple[float, ...]], {"7": [0.5, 1.0]})
    {7: (0.5, 1.0)}
    """
    read = _reader(kind)
    return data if read is None else read(data)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


@cache
def _reader(kind: Any) -> Read | None:
    """What makes a value of this type of JSON; None where it is the same there."""
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        [inside] = [one for one in arguments if one is not NoneType]
        return _of_known_one(_reader(inside))
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is list:
        each = _reader(arguments[0])
        return list if each is None else lambda data: list(map(each, data))
    if origin in (dict, Mapping):
        key, read = (int if arguments[0] is int else str), _reader(arguments[1])
        return lambda data: {key(name): one if read is None else read(one) for name, one in data.items()}
    if origin is Literal or kind in _PLAIN or kind is Any:
        return None
    raise TypeError(f"{kind} has no JSON")


def _of_known_one(read: Read | None) -> Read | None:
    return None if read is None else lambda data: None if data is None else read(data)


def _tuple_reader(arguments: tuple[Any, ...]) -> Read:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        read = _reader(arguments[0])
        return tuple if read is None else lambda data: tuple(map(read, data))
    reads = [_reader(one) for one in arguments]
    return lambda data: tuple(
        one if read is None else read(one) for one, read in zip(data, reads, strict=True)
    )  # fmt: skip


def _dataclass_reader(kind: Any) -> Read:
    # A class may have values of its own kind.
    readers: dict[str, Read | None] = {}

    def read(data: Mapping[str, Any]) -> Any:
        if not readers:
            hints = get_type_hints(kind)
            readers.update({name: _reader(hints[name]) for name in _names(kind)})
        return kind(**{
            name: one if (how := readers[name]) is None else how(one) for name, one in data.items() if name in readers
        })  # fmt: skip

    return read

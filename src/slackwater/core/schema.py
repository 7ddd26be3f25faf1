"""What a stream's columns are: six kinds, each carried as one 64-bit word a value.

Invariant: a column of any kind is one int64 or float64 array, and no validity mask travels beside it. A null is
NULL_WORD in the integer kinds and the NaN with the bits NULL_FLOAT in FLOAT; any other NaN is a value of the data and
always has the bits of `math.nan`. Text is a code from the query's codebook. A decimal is its digits without the point,
and its scale is known from the type: all values of a column have as many digits behind the point.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

NULL_WORD = -(2**63)
"""How a null looks in an int64 word; a value that equals it is rejected at the source."""
NULL_FLOAT = 0x7FF8_0000_0000_0BAD
"""The bits of a null in a float word: a NaN that no data carries, because every other NaN is made canonical."""


class Kind(Enum):
    """The type of a value, as far as queries can distinguish."""

    INT = "integer"
    FLOAT = "float"
    BOOL = "boolean"
    TEXT = "text"
    TIME = "timestamp"
    DECIMAL = "decimal"

    @property
    def numeric(self) -> bool:
        return self in (Kind.INT, Kind.FLOAT, Kind.DECIMAL)


UTC = pa.timestamp("us", "UTC")
NO_ZONE = pa.timestamp("us")
DIGITS = 18
"""How many digits of a decimal a word is sure to hold, and how many may stand behind the point."""
WORD_DIGITS = 19
"""How many digits the largest word has."""
ARROW_OF = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.TEXT: pa.string(),
    Kind.TIME: UTC,
}
"""The Arrow type in which a computed value of each kind leaves; of a decimal, `decimal_type` says it."""

SUM_DIGITS, AVERAGE_DIGITS = 10, 4
"""How many digits the sum of a decimal has more than it, and the average, behind the point; as in Spark."""


@dataclass(frozen=True)
class Field:
    """One column of a stream: its name, its kind, and the Arrow type it came with and leaves with."""

    name: str
    kind: Kind
    arrow: pa.DataType

    @property
    def scale(self) -> int:
        """How many digits of a decimal stand behind the point."""
        return int(self.arrow.scale) if self.kind is Kind.DECIMAL else 0


@dataclass(frozen=True)
class Schema:
    """The columns of a stream, in order, and which of them is the event time.

    >>> schema = Schema((Field("ts", Kind.TIME, pa.timestamp("us", "UTC")), Field("v", Kind.FLOAT, pa.float64())), "ts")
    >>> schema["v"].kind.value
    'float'
    """

    fields: tuple[Field, ...]
    time: str

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)


def kind_of(arrow: pa.DataType) -> Kind | None:
    """The kind that carries an Arrow type, or None where no kind can.

    >>> kind_of(pa.int16()), kind_of(pa.dictionary(pa.int8(), pa.string())), kind_of(pa.list_(pa.int8()))
    (<Kind.INT: 'integer'>, <Kind.TEXT: 'text'>, None)
    >>> kind_of(pa.decimal128(18, 4)), kind_of(pa.decimal128(38, 10))
    (<Kind.DECIMAL: 'decimal'>, None)
    """
    if pa.types.is_dictionary(arrow):
        return kind_of(arrow.value_type)
    if pa.types.is_integer(arrow):
        return Kind.INT
    if pa.types.is_floating(arrow):
        return Kind.FLOAT
    if pa.types.is_decimal(arrow):
        return Kind.DECIMAL if arrow.precision <= DIGITS and 0 <= arrow.scale <= DIGITS else None
    if pa.types.is_boolean(arrow):
        return Kind.BOOL
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return Kind.TEXT
    if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow):
        return Kind.TIME
    return None


def decimal_type(scale: int, digits: int = WORD_DIGITS) -> pa.DataType:
    """The Arrow type of a decimal with so many digits behind the point; a computed one may fill its word."""
    return pa.decimal128(min(38, max(digits, scale)), scale)


def time_type(arrow: pa.DataType) -> pa.DataType:
    """The Arrow type in which a time leaves: a date is a date, a timestamp without a zone stays without, and what
    else gives times (a zone, a number, a text) gives them in UTC.

    >>> time_type(pa.date64()), time_type(pa.timestamp("ns")), time_type(pa.timestamp("s", "Asia/Tokyo"))
    (DataType(date32[day]), TimestampType(timestamp[us]), TimestampType(timestamp[us, tz=UTC]))
    """
    if pa.types.is_dictionary(arrow):
        return time_type(arrow.value_type)
    if pa.types.is_date(arrow):
        return pa.date32()
    return NO_ZONE if pa.types.is_timestamp(arrow) and arrow.tz is None else UTC


def type_name(arrow: pa.DataType) -> str:
    """A type as a user writes it.

    >>> type_name(pa.decimal128(38, 10)), type_name(pa.list_(pa.int8()))
    ('decimal(38, 10)', 'list<item: int8>')
    """
    if isinstance(arrow, pa.OpaqueType):
        return str(arrow.type_name)
    if pa.types.is_struct(arrow):
        return f"struct<{', '.join(f'{field.name}: {type_name(field.type)}' for field in arrow)}>"
    return f"decimal({arrow.precision}, {arrow.scale})" if pa.types.is_decimal(arrow) else str(arrow)

"""What lowering keeps shallow, and what it refuses."""

import pytest

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.lower import MAX_BRANCHES, Step, lower
from slackwater.expressions.tree import Call, Column, Literal

V = Column(0, "v", Kind.INT)


def is_one_of(count):
    return [typed_call("=", (V, Literal(i, Kind.INT))) for i in range(count)]


def depth(node):
    return 1 + max(map(depth, node.args)) if isinstance(node, Step) else 0


def comparisons(node):
    """The constants compared with, from left to right."""
    if not isinstance(node, Step):
        return []
    if not isinstance(node.args[0], Step):
        return [node.args[1].bits]
    return [bits for arg in node.args for bits in comparisons(arg)]


def test_a_long_list_of_choices_is_not_nested_deeply_and_keeps_its_order():
    node = lower(Call("or", tuple(is_one_of(2000)), Kind.BOOL), lambda stream, column: 1, len)
    assert depth(node) <= 12
    assert comparisons(node) == list(range(2000))
    assert hash(node) == hash(node)


def test_a_case_with_too_many_branches_is_refused():
    branches = [part for test in is_one_of(MAX_BRANCHES + 1) for part in (test, Literal(0, Kind.INT))]
    case = Call("case", (*branches, Literal(1, Kind.INT)), Kind.INT)
    with pytest.raises(UsageError, match="at most 100 branches"):
        lower(case, lambda stream, column: 1, len)

"""`join = 'nested_loop' | 'hash' | 'merge'`: the algorithms of the W-join report (002), registered here by name."""

from __future__ import annotations

from functools import partial

from slackwater.operators.join.algorithms import ALGORITHMS
from slackwater.operators.join.operator import WindowJoin
from slackwater.published.wjoin.approaches import LCA
from slackwater.published.wjoin.spec import OFFERED, WJoin, by_algorithm


def _asked_for(algorithm: str, join: WindowJoin, windows: str | None) -> WJoin:
    return by_algorithm(join, algorithm, windows or LCA)


for _name in OFFERED:
    ALGORITHMS.register(_name, partial(_asked_for, _name))

"""What leaves of the results of a join by DSTREAM and RSTREAM, slow and obvious: instant by instant.

Invariant: shares no code with the operator; a result is in force from its own timestamp to the last instant at which
all its members are in their windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.relation_to_stream import RelationToStream
from slackwater.testing.oracle_join import Result


def oracle_relation_to_stream(
    spec: RelationToStream, results: Iterable[Result], times: Mapping[int, int]
) -> Counter[Result]:
    """Results as (timestamp, members) with the timestamps they leave with; `times` are those of the members.

    >>> join = WindowJoin(windows=(2, 3), equalities=(), conditions=(), columns=(), emit=(), rows=2)
    >>> sorted(oracle_relation_to_stream(RelationToStream(join), [(5, (0, 1))], {0: 4, 1: 5}))
    [(7, (0, 1))]
    >>> sorted(oracle_relation_to_stream(RelationToStream(join, every=2), [(5, (0, 1))], {0: 4, 1: 5}))
    [(6, (0, 1))]
    """
    join = spec.made_by
    assert isinstance(join, WindowJoin), "the rows of an aggregate are the same whenever they leave"
    found: Counter[Result] = Counter()
    for made, members in results:
        instant = made
        while all(instant <= times[row] + size for row, size in zip(members, join.windows, strict=True)):
            if spec.every and instant % spec.every == 0:
                found[instant, members] += 1
            instant += 1
        if not spec.every:
            found[instant, members] += 1
    return found

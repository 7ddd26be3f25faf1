"""How the tuples of a domain are laid out: flags behind the rows, and what a tuple of an earlier layout is now.

A flag is a bit for each selection, set where the tuple has passed the filter of its stream. Queries come and go between
two runs, so a row of a stream may stand elsewhere now, and a selection may have another flag. What a query reads tells
where: it had a row then and has one now.

Invariant: what `Batch.passes` drops has no flag. Rows move by stream, because each stream has its own. What nobody
reads any more is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.jit import in_place
from slackwater.disorder.sharing.chunks import Numbers
from slackwater.disorder.sharing.log import FLAGS, References, Selection
from slackwater.disorder.sharing.pool import PersistedTuples
from slackwater.operators.query_set.places import NO_FILTER

NOBODY = NO_FILTER - 1
"""In place of a filter: no tuple is wanted."""


@in_place
def flag(stream: Words, passes: Flags, passed: Words, filters: Words, flags: Words) -> None:
    """Set the flag of every selection whose filter of the tuple's stream the tuple has passed."""
    for number in range(len(filters)):
        word, bit = number // FLAGS, number % FLAGS
        for i in range(len(stream)):
            chosen = filters[number, stream[i]] if passes[i] else NOBODY
            if chosen == NO_FILTER or (chosen >= 0 and (passed[chosen // FLAGS, i] >> (chosen % FLAGS)) & 1 == 1):
                flags[word, i] |= 1 << bit


@in_place
def flagged_places(flags: Words, bit: int, places: Words) -> int:
    """Write where the bit is set; returns how often."""
    n = 0
    for i in range(len(flags)):
        places[n] = i
        n += (flags[i] >> bit) & 1
    return n


@dataclass(frozen=True)
class LayoutMigration:
    """From the layout of then to that of now."""

    rows: Sequence[dict[int, int]]
    """Per stream, the row of now for each row of then."""
    selections: Sequence[tuple[int, int]]
    """A selection then, and one that queries of it have now."""
    width_then: int
    width: int
    """Rows without flags."""
    flags: int
    """Words of flags now."""

    def tuples(self, batch: Batch) -> Words:
        """The words that tuples of then have now."""
        words = self._nothing(len(batch))
        for s, rows in enumerate(self.rows):
            mine = np.flatnonzero(batch.stream == s)
            for then, now in rows.items():
                words[now, mine] = batch.words[then, mine]
        self._flag(batch.words[self.width_then :], words)
        return words

    def referred(
        self, of: References, pools: Sequence[PersistedTuples], columns: Sequence[Sequence[int]]
    ) -> tuple[Batch, Words, Numbers]:
        """The tuples to which a log referred, as they are now, with their delays and the chunks they were in.

        Per stream: the pool of then, and which of its columns a row of then was. What is in no pool any more, nobody
        waits for.
        """
        words = self._nothing(len(of.stream))
        here = np.zeros(len(of.stream), np.bool_)
        for s, rows in enumerate(self.rows):
            mine = np.flatnonzero(of.stream == s)
            if not len(mine):
                continue
            known, found = pools[s].find(of.identity[mine])
            here[mine[known]] = True
            for then, now in rows.items():
                # Tuples that came before a row did, have nothing in it.
                if then < len(columns[s]) and columns[s][then] < len(found):
                    words[now, mine[known]] = found[columns[s][then]]
        self._flag(of.flags, words)
        held = Batch(of.stream, words, np.ones(len(of.stream), np.bool_))
        return held.take(np.flatnonzero(here)), of.delay[here], of.chunk[here]

    def _nothing(self, tuples: int) -> Words:
        return np.zeros((self.width + self.flags, tuples), np.int64)

    def _flag(self, then: Words, words: Words) -> None:
        """Set the flags of now by those of then."""
        for old, new in self.selections:
            was, now = Selection.numbered(old), Selection.numbered(new)
            words[self.width + now.word] |= ((then[was.word] >> was.bit) & 1) << now.bit

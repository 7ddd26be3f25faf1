"""Selection for compiled loops: words by their rank, without sorting all of them.

References: Hoare: Algorithm 65, Find, CACM 4(7), 1961; Williams: Algorithm 232, Heapsort, CACM 7(6), 1964.
"""

from __future__ import annotations

from slackwater.core.batch import Words
from slackwater.core.jit import inner


@inner
def bring_to(words: Words, begin: int, end: int, rank: int) -> None:
    """Order words of [begin, end) so that none before index `rank` is greater than the one there, none behind less."""
    low, high = begin, end - 1
    while low < high:
        pivot = middle_of(words[low], words[(low + high) >> 1], words[high])
        i, j = low, high
        while i <= j:
            while words[i] < pivot:
                i += 1
            while pivot < words[j]:
                j -= 1
            if i <= j:
                words[i], words[j] = words[j], words[i]
                i, j = i + 1, j - 1
        # Between j and i all words are the pivot.
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            return


@inner
def middle_of(a: int, b: int, c: int) -> int:
    """The second of three words in order."""
    return max(min(a, b), min(max(a, b), c))


@inner
def sort(words: Words, begin: int, end: int) -> None:
    """Order the words of [begin, end)."""
    heap, n = (end - begin) // 2, end - begin
    while n > 1:
        if heap > 0:
            # Those from here on are a heap already.
            heap -= 1
        else:
            n -= 1
            words[begin], words[begin + n] = words[begin + n], words[begin]
        sift(words, begin, heap, n)


@inner
def sift(words: Words, begin: int, at: int, n: int) -> None:
    """In a heap of n words with the largest on top, let the one at a position sink to where it belongs."""
    word = words[begin + at]
    child = 2 * at + 1
    while child < n:
        if child + 1 < n and words[begin + child] < words[begin + child + 1]:
            child += 1
        if words[begin + child] <= word:
            break
        words[begin + at] = words[begin + child]
        at, child = child, 2 * child + 1
    words[begin + at] = word

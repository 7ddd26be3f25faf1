"""One word a thing: words that were replaced by those of the field occur nowhere any more (docs/glossary.md)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMES = [
    "frontier", "let_out", "let_go", "hand_on", "hold_for_promises", "promise_all", "WayOut", "WayOutOperator",
    "ways_out", "way_out", "SetAside", "turned_away", "TurnedAway", "Fates", "Admission", "Unlearning", "Bookkeeper",
    "keep_books", "RowBooks", "PastLosses", "past_losses", "needed_slack", "error_needs", "error_losses",
    "error_measured", "AnnotatedProfiler", "Pace", "stand_behind", "Inlet", "InletMaker", "KeptArrays",
    "NumberedWindows", "NumberedOperator", "reentry", "any_order", "push_out", "cut_off", "row_windows", "OfNode",
    "lifting", "refusals", "routes_of", "NO_ROOM", "Room", "EarlySynchronizer", "joins_early", "GuardedQuery", "Crowd",
    "Census", "take_census", "Meeting", "Desk", "Wish", "Standing", "Stretches", "SparkPlace", "moment_type", "teller",
    "names_told", "Board",
]  # fmt: skip
PHRASES = (r"\blets? (?:\w+ ){0,3}out\b", r"\bbooks\b", r"\bof unknown price\b", r"\bturned away\b", r"\bset aside\b",
    r'"""(?:Whoever|Nobody|Somebody)\b', r"(?<!\w)the crowd\b")  # fmt: skip
"""Of a private language: a result is emitted, a ledger is kept, a tuple is beyond the retention horizon or pending."""
EXEMPT = {"CHANGELOG.md", "docs/glossary.md", "tests/test_vocabulary.py"}
"""They speak of the old words, or of both."""
FILES = [
    path
    for pattern in (
        "src/**/*.py",
        "papers/**/*.py",
        "tests/**/*.py",
        "benchmarks/**/*.py",
        "examples/**/*.py",
        "*.md",
        "docs/*.md",
    )
    for path in sorted(ROOT.glob(pattern))
    if str(path.relative_to(ROOT)) not in EXEMPT
]


@cache
def texts() -> dict[str, str]:
    """All files, read once."""
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}


def places(pattern: str, within: str = "") -> list[str]:
    """Where a pattern occurs; what it is certain to hold is looked for first, which is much faster."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts().items()
        if within in text
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]


@pytest.mark.parametrize("word", NAMES)
def test_a_word_that_was_replaced_occurs_nowhere(word: str) -> None:
    assert places(rf"\b_?{word}\b", word) == []


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_that_was_replaced_occurs_nowhere(phrase: str) -> None:
    assert places(phrase) == []

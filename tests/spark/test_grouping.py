"""Tests on Spark share sessions: xdist keeps each of their groups on one worker."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("spark")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process has one session anyway")
def test_groups_are_kept_together(request: pytest.FixtureRequest) -> None:
    """pytest 9.2 gives nodes ids that xdist 3.8 cannot extend by a group. All groups are scattered then, and every
    worker has a session and every fixture of its own."""
    assert request.node.nodeid.endswith("@spark")

"""How Spark writes its own logs of a query that we start, and what becomes of the settings of the session."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")
from slackwater.runtime.spark.session import FILE_MANAGER, ON_DISK, WRITING_AT_ONCE, settings_for, started_with
from slackwater.runtime.spark.store import Location


class Session:
    """A session with settings, whose JVM has the package for clouds, or has not."""

    def __init__(self, has_package: bool = False) -> None:
        self.has_package = has_package
        self._jvm = self.java = self.lang = self.Class = self.conf = self
        self.known: dict[str, str] = {}
        self.get, self.set, self.unset = self.known.get, self.known.__setitem__, self.known.__delitem__

    def forName(self, name: str) -> None:  # noqa: N802
        if not self.has_package:
            raise AttributeError(name)


class Query:
    """A query that makes its sources some time after it was started, by the settings that there are then."""

    isActive = True  # noqa: N815

    def __init__(self, session: Session) -> None:
        self.session, self.looks = session, 0
        self.logs = session.known.get(FILE_MANAGER)

    @property
    def status(self) -> dict[str, str]:
        self.looks += 1
        self.sources = self.session.known.get(FILE_MANAGER)
        return {"message": "Initializing sources" if self.looks < 3 else "Processing new data"}


def started(session: Session) -> Any:
    return started_with(session, ON_DISK, lambda: Query(session))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("before", [{}, ON_DISK, {"other": "one"}])
def test_a_query_and_its_sources_have_the_settings_that_serve_it_and_the_session_has_its_own(
    before: dict[str, str],
) -> None:
    session = Session()
    session.known.update(before)
    query = started(session)
    assert query.logs == query.sources == ON_DISK[FILE_MANAGER]
    assert query.looks == 3
    assert session.known == before


def test_what_somebody_has_chosen_stays() -> None:
    session = Session()
    session.known[FILE_MANAGER] = "own"
    query = started(session)
    assert query.logs == query.sources == "own"
    assert session.known == {FILE_MANAGER: "own"}


def test_a_start_that_fails_leaves_the_session_as_it_was() -> None:
    session = Session()
    with pytest.raises(ZeroDivisionError):
        started_with(session, ON_DISK, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert session.known == {}


def test_on_s3_nothing_is_renamed_where_the_package_for_clouds_is_at_hand() -> None:
    there, elsewhere = Location("s3a://bucket/checkpoint"), Location("hdfs://name/checkpoint")
    assert settings_for(Session(True), there)[FILE_MANAGER] == WRITING_AT_ONCE  # type: ignore[arg-type]
    assert settings_for(Session(False), there) == ON_DISK  # type: ignore[arg-type]
    assert FILE_MANAGER not in settings_for(Session(True), elsewhere)  # type: ignore[arg-type]

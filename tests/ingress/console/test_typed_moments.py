"""The times that people type into forms, in the zone of their company."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from ingress.console.signed_in import typed_moment

CHICAGO = ZoneInfo("America/Chicago")


@pytest.mark.parametrize(
    ("typed", "now", "meant"),
    [
        ("2026-11-28T10:00", "2026-11-28T17:00", "2026-11-28T16:00"),
        ("2026-11-28T10:00", "2026-11-01T00:00", "2026-11-28T16:00"),  # to come
        ("2026-11-01T01:20", "2026-11-01T06:25", "2026-11-01T06:20"),  # clocks have not gone back yet
        ("2026-11-01T01:20", "2026-11-01T07:25", "2026-11-01T07:20"),  # just now, by clocks that have
        ("2026-11-01T01:40", "2026-11-01T07:25", "2026-11-01T06:40"),  # before they did
        ("2026-03-08T02:30", "2026-03-09T00:00", "2026-03-08T08:30"),  # a time that there was not
        ("2026-11-01T01:20-05:00", "2026-11-01T07:25", "2026-11-01T06:20"),
    ],
)
def test_an_hour_that_comes_twice_is_the_later_one_unless_it_is_to_come(typed: str, now: str, meant: str) -> None:
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert typed_moment(typed, CHICAGO, at) == datetime.fromisoformat(meant).replace(tzinfo=UTC)

"""Quiet hours go by the clock on the person's wall, and may span midnight."""

from datetime import UTC, datetime

import pytest

from domain.notices.quiet_hours import QuietHours


def at(hour: int, minute: int = 0, *, day: int = 24) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "is_quiet"),
    [(at(21, 59), False), (at(22), True), (at(23, 59), True), (at(0), True), (at(5, 59), True), (at(6), False)],
    ids=str,
)
def test_hours_over_midnight(moment: datetime, is_quiet: bool) -> None:
    assert QuietHours(22 * 60, 6 * 60, "UTC").have(moment) == is_quiet


@pytest.mark.parametrize(("moment", "is_quiet"), [(at(11, 59), False), (at(12), True), (at(13), False)], ids=str)
def test_hours_within_a_day(moment: datetime, is_quiet: bool) -> None:
    assert QuietHours(12 * 60, 13 * 60, "UTC").have(moment) == is_quiet


def test_hours_of_another_zone() -> None:
    """In Chicago it is 22:00 when it is 04:00 in London, and an hour earlier in summer."""
    night = QuietHours(22 * 60, 6 * 60, "America/Chicago")
    assert not night.have(at(3, 59))
    assert night.have(at(4))
    assert night.have(at(11, 59))
    assert not night.have(at(12))
    assert night.have(datetime(2026, 7, 1, 3, 0, tzinfo=UTC))
    assert not night.have(datetime(2026, 7, 1, 11, 0, tzinfo=UTC))


def test_hours_that_end_where_they_begin_are_empty() -> None:
    assert not any(QuietHours(300, 300, "UTC").have(at(hour)) for hour in range(24))

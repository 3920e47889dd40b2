"""The day and time of a purchase in the ways in which cards and spreadsheets write them."""

from datetime import datetime

import pytest

from domain.fills.cells import RowFault
from domain.fills.receipt_times import receipt_time


@pytest.mark.parametrize(
    ("day", "clock", "local"),
    [
        ("9/30/26", "0:09:19", datetime(2026, 9, 30, 0, 9, 19)),
        ("09/13/2026", "09:00 AM", datetime(2026, 9, 13, 9)),
        ("20260909", "1405", datetime(2026, 9, 9, 14, 5)),
        ("2026-09-09", "905", datetime(2026, 9, 9, 9, 5)),
        ("2026-06-29T14:25", "", datetime(2026, 6, 29, 14, 25)),
        ("Sep 9, 2026 2:10 PM", "", datetime(2026, 9, 9, 14, 10)),
        ("09-Sep-26", "2:10 p.m.", datetime(2026, 9, 9, 14, 10)),
        ("46174", "0.75", datetime(2026, 6, 1, 18)),
        ("46174.604", "", datetime(2026, 6, 1, 14, 29, 46)),
        ("2026-09-09 00:00:00", "1899-12-31 14:05:00", datetime(2026, 9, 9, 14, 5)),
        ("09/09/2026 12:00:00 AM", "12/30/1899 2:05:00 PM", datetime(2026, 9, 9, 14, 5)),
        ("09/09/2026", "14 h 05", datetime(2026, 9, 9, 14, 5)),
        ("09/09/2026", "12:00 AM", datetime(2026, 9, 9)),
        ("09/09/2026 12:00 PM", "", datetime(2026, 9, 9, 12)),
        ("09/09/2026 00:00:01", "", datetime(2026, 9, 9, 0, 0, 1)),
        ("2026-07-01T06:30:00Z", "", datetime(2026, 6, 30, 23, 30)),
        ("2026-06-29T14:25:00-05:00", "", datetime(2026, 6, 29, 12, 25)),
        ("2026-09-09 02:10 PM CDT", "", datetime(2026, 9, 9, 12, 10)),
        ("09/09/2026", "14:10 CT", datetime(2026, 9, 9, 12, 10)),
        ("12/09/2026", "14:10 EST", datetime(2026, 12, 9, 11, 10)),
    ],
)
def test_a_time_is_that_of_the_place(day: str, clock: str, local: datetime) -> None:
    at, has_time = receipt_time(day, clock, "CA")
    assert (at.replace(tzinfo=None), has_time) == (local, True)


@pytest.mark.parametrize(("day", "clock"), [("31.12.2026", ""), ("9/31/26", ""), ("9/9/26", "25:00"), ("1/1/1999", "")])
def test_a_day_or_time_that_cannot_be_is_a_fault(day: str, clock: str) -> None:
    with pytest.raises(RowFault):
        receipt_time(day, clock, "CA")


@pytest.mark.parametrize(
    "day",
    [
        *("46174", "6/1/2026 12:00:00 AM", "06/01/2026 12:00 AM", "2026-06-01 00:00:00.000", "2026-06-01T00:00"),
        *("2026-06-01T00:00:00Z", "2026-06-01T00:00:00-05:00"),
    ],
)
def test_a_day_alone_is_its_noon(day: str) -> None:
    assert receipt_time(day, "", "CA") == (datetime(2026, 6, 1, 12), False)

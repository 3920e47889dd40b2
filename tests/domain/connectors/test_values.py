"""Times, numbers and documents as vendors write them."""

import timeit
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import clock
from domain.connectors.values import (
    is_false,
    moment_or_none,
    number_or_none,
    percent_or_none,
    read_document,
    records_of,
    text_or_none,
    wait_or_none,
)
from domain.connectors.vendor import UnreadableAnswer

MOMENT = datetime(2026, 11, 25, 20, 6, 7, tzinfo=UTC)
SECONDS = int(MOMENT.timestamp())


@pytest.mark.parametrize(
    "written",
    [
        "2026-11-25T20:06:07Z",
        "2026-11-25T20:06:07.000Z",
        "2026-11-25T20:06:07.000000000Z",
        "2026-11-25T14:06:07-06:00",
        "2026-11-25T20:06:07.000+0000",
        "2026-11-25 20:06:07",
        "2026-11-25 20:06:07 UTC",
        "2026-11-25 14:06:07 -0600",
        "20261125T200607Z",
        "20261125200607",
        "Wed, 25 Nov 2026 20:06:07 GMT",
        "11/25/2026 20:06:07",
        "11/25/2026 08:06:07 PM",
        "11/25/2026 8:06:07 PM UTC",
        "11/25/26 20:06:07",
        "11/25/26 8:06:07 PM",
        "11/25/26 1:06:07 PM MST",
        "11/25/2026 14:06:07 CST",
        "2026-11-25 15:06:07 EST",
        "2026-11-25 13:06:07 pdt",
        "Nov 25, 2026 8:06:07 PM",
        "Nov 25, 2026, 8:06:07 PM",
        "Nov 25, 2026 20:06:07",
        "Nov 25 2026 20:06:07",
        "Nov 25 2026 8:06:07PM",
        "11/25/2026, 8:06:07 PM",
        "11/25/2026, 8:06:07\u202fPM",
        "2026-11-25 08:06:07 PM",
        "2026/11/25 20:06:07",
        "2026-11-25t20:06:07z",
        "Wed Nov 25 20:06:07 UTC 2026",
        "Wed Nov 25 2026 14:06:07 GMT-0600 (Central Standard Time)",
        "Wed Nov 25 2026 20:06:07 UTC+0000",
        "11/25/2026 2:06:07 PM -06:00",
        "11/25/2026 2:06:07 PM GMT-6",
        "2026-11-25 14:06:07 -6:00",
        "2026-11-25 20:06:07 UTC+0",
        "2026-11-25T14:06:07-06",
        "11/25/2026 20:06:07Z",
        "11-25-2026 20:06:07 Z",
        "November 25, 2026 8:06:07 PM",
        "25 Nov 2026 8:06:07PM",
        "25-Nov-2026 16:06:07 AST",
        "2026-11-25 08:06:07.000 PM",
        "Wed Nov 25 2026 14:06:07 GMT-6",
        "Wed Nov 25 14:06:07 GMT-06:00 2026",
        "Wed Nov 25 22:06:07 +2 2026",
        "25 Nov 2026 22:06:7 +02:00",
        "Wed, 25 Nov 2026 20:06:07 +0000 (UTC)",
        f"/Date({SECONDS}000)/",
        f"/Date({SECONDS}000-0600)/",
        SECONDS,
        float(SECONDS),
        str(SECONDS),
        SECONDS * 1000,
        str(SECONDS * 1000),
        SECONDS * 1_000_000,
        SECONDS * 1_000_000_000,
        f"  {SECONDS}.0 ",
    ],
)
def test_a_time_is_read_in_whatever_form_it_comes(written: object) -> None:
    """`Nov 25 2026 8:06:07PM` is a time of SQL Server, as GPS Insight's documentation has it
    (gpsidev/api_v2_documentation), `11/25/2026, 8:06:07 PM` one of JavaScript's `toLocaleString`."""
    assert moment_or_none(written) == MOMENT


@pytest.mark.parametrize(
    "written",
    [
        "25 Nov 2026 14:06:07 PT",
        "Wed Nov 25 11:06:07 AKST 2026",
        "11/25/2026 2:06:07 PM (UTC-06:00)",
        "25 Nov 2026 14:06:07 -0600 Chicago",
        "25 Nov 2026 14:06:07 (CST)",
    ],
)
def test_a_zone_that_is_not_understood_is_never_passed_over(written: str) -> None:
    """A time without its zone is hours wrong."""
    assert moment_or_none(written) is None


def test_a_percentage_may_have_its_sign_and_false_may_be_a_text() -> None:
    assert [percent_or_none(one) for one in (62, "62", "62%", " 62.5 % ", "full", None)] == [
        62,
        62,
        62,
        62.5,
        None,
        None,
    ]
    assert [is_false(one) for one in (False, 0, "false", "False")] == [True] * 4
    assert [is_false(one) for one in (True, 1, "true", None, "", 0.5)] == [False] * 6


def test_a_time_without_an_offset_is_in_the_zone_that_was_named() -> None:
    assert moment_or_none("2026-11-25 14:06:07", ZoneInfo("America/Chicago")) == MOMENT
    for written in ("2026-11-25T20:06:07Z", "Wed, 25 Nov 2026 20:06:07 -0000"):
        assert moment_or_none(written, ZoneInfo("America/Chicago")) == MOMENT
    assert moment_or_none(SECONDS, ZoneInfo("America/Chicago")) == MOMENT


@pytest.mark.parametrize(
    "written",
    [
        None,
        True,
        "",
        "yesterday",
        "2026-11-25",
        "OCT 5, 2026",
        "2026-13-01T00:00:00Z",
        "25:61",
        [],
        {},
        1e300,
        "1e999",
        "nan",
        "٣",
    ],
)
def test_what_is_no_time_is_none(written: object) -> None:
    assert moment_or_none(written) is None


@given(st.text() | st.integers() | st.floats() | st.none() | st.lists(st.integers()))
def test_no_value_is_a_fault(value: object) -> None:
    moment = moment_or_none(value)
    assert moment is None or moment.tzinfo is UTC
    number_or_none(value)
    text_or_none(value)
    records_of(value)


def test_numbers_may_be_texts_and_out_of_range_is_none() -> None:
    assert [number_or_none(one) for one in ("41.462", " -88 ", 7, "1e2")] == [41.462, -88, 7, 100]
    odd: list[object] = ["", "41,5", "1_000", "inf", True, None, [], 10**400, float("nan")]
    assert [number_or_none(one) for one in odd] == [None] * len(odd)


def test_only_a_wait_of_less_than_a_day_counts() -> None:
    """A vendor that asks for no wait at all would be asked twice a second, and one that asks for years never."""
    assert (wait_or_none("30"), wait_or_none("0.2")) == (30, 0.2)
    for odd in (None, "", "0", "-1", "86400", "9" * 400, "nan", "soon", "Wed, 25 Nov 2020 20:06:07 GMT"):
        assert wait_or_none(odd) is None, odd


def test_a_wait_may_be_told_as_the_date_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9110, 10.2.3: in each form of a date. A page of maintenance has one more often than an interface."""
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 11, 25, 20, 0, tzinfo=UTC))
    for date in ("Wed, 25 Nov 2026 20:06:07 GMT", "Wednesday, 25-Nov-26 20:06:07 GMT", "Wed Nov 25 20:06:07 2026"):
        assert wait_or_none(date) == 367, date
    for odd in ("Wed, 25 Nov 2026 20:00:00 GMT", "Thu, 26 Nov 2026 20:00:01 GMT", "Wed, 99 Nov 2026 20:06:07 GMT"):
        assert wait_or_none(odd) is None, odd


def test_a_document_with_a_number_out_of_range_is_read_and_one_that_is_none_is_refused() -> None:
    assert read_document("X", b'{"a": 1e999, "b": NaN, "c": 2}')["c"] == 2
    assert read_document("X", b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    assert read_document("X", b"{" + b'"a":1,' * 100_000 + b'"a":2}') == {"a": 2}
    for body in (b"", b"<html>", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"1" * 10_000):
        with pytest.raises(UnreadableAnswer):
            read_document("X", body, dict)


def test_a_text_that_is_no_time_costs_little() -> None:
    """A vendor that sends is read in the event loop that all requests of a process share."""

    def seconds(text: str) -> float:
        return min(timeit.repeat(lambda: moment_or_none(text), number=100, repeat=10))

    assert seconds("1:x") < 4 * seconds("11/25/2026 20:06:07")

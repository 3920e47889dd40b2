"""Times of the public API: RFC 3339 with an offset is read, anything looser is refused."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.shapes import moment_of
from domain.encoding import write

START = datetime(2026, 3, 1, 14, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-01T08:00:00-06:00", START),
        ("2026-03-01T14:00:00Z", START),
        ("2026-03-01t14:00:00z", START),
        ("2026-03-01 14:00:00+00:00", START),
        ("2026-03-01T14:00:00-00:00", START),
        ("2026-03-01T14:00:00.25Z", START + timedelta(milliseconds=250)),
        ("2024-02-29T23:59:59+00:00", datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_rfc_3339_time_with_an_offset_is_read_in_utc(text: str, moment: datetime) -> None:
    read = moment_of(text)

    assert read == moment
    assert read.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01T08:00:00",
        "2026-03-01",
        "2026-03-01T08:00Z",
        "20260301T080000Z",
        "2026-03-01T08:00:00+0600",
        "2026-03-01T08:00:00 Z",
        " 2026-03-01T08:00:00Z",
        "2026-03-01T08:00:00Z\n",
        "2026-03-01T08:00:00,5Z",
        "2026-03-01T08:00:00.Z",
        "2026-W09-7T08:00:00Z",
        "٢٠٢٦-03-01T08:00:00Z",
        "2026-02-29T08:00:00Z",
        "2026-13-01T08:00:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T08:00:00+24:00",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00Z",
        "",
        0,
        1772366400.5,
        True,
        None,
        [],
    ],
)
def test_a_looser_time_is_refused_with_a_text_for_people(value: object) -> None:
    with pytest.raises(ValueError, match=r"^(Expected an RFC 3339 date-time|No such date and time)"):
        moment_of(value)


offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=offsets)


@hypothesis_settings(deadline=None)
@given(moments)
def test_every_moment_survives_writing_and_reading(moment: datetime) -> None:
    read = moment_of(moment.isoformat())

    assert read == moment
    written = json.loads(write(read))
    assert written.endswith("Z")
    assert moment_of(written) == moment

"""Reads days and times in the spellings of files, vendors and e-mail. The month comes before the day, as in all of the
United States, unless the year comes first or the month is a word."""

import re
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone

MOST_TIME_CHARACTERS = 100

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = [
    re.compile(
        rf"(?:(?:MON|TUE|WED|THU|FRI|SAT|SUN)[A-Z]*,? +)?{pattern}(?P<behind>(?:[T ,-].*)?)", re.ASCII | re.IGNORECASE
    )
    for pattern in (
        r"(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/] ?(?P<d>\d{1,2})",
        r"(?P<m>\d{1,2})[/-] ?(?P<d>\d{1,2})[/-](?P<y>\d{4}|\d{2})",
        r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})",
        r"(?P<d>\d{1,2})[- ](?P<month>[A-Z]{3})[A-Z]*\.?[- ,]+(?P<y>\d{4}|\d{2})",
        r"(?P<month>[A-Z]{3})[A-Z]*\.? +(?P<d>\d{1,2}),? +(?P<y>\d{4}|\d{2})",
    )
]
_YEAR_LAST = re.compile(r"([A-Z]{3} \d{1,2}) (\d{1,2}:.+) (\d{4})$", re.ASCII | re.IGNORECASE)
"""A time of C and of Java: `Wed Nov 25 14:06:07 CST 2026`."""
_COLON = r"(?::|(?=\d\d))"
_CLOCK = re.compile(
    rf"(?:[T-]|,? ?(?:AT )?)(?P<h>\d{{1,2}})"
    rf"(?:{_COLON}(?P<m>\d{{1,2}})(?:{_COLON}(?P<s>\d{{1,2}})(?:[.,:](?P<part>\d+))?)?)?"
    r"(?: ?(?P<half>[AP])\.?M\.?)?(?: ?(?P<zone>[A-Z(+-].*))?",
    re.ASCII | re.IGNORECASE,
)
_HOURS = {
    **dict.fromkeys(("Z", "UT", "UTC", "GMT"), 0),
    **{"AST": -4, "ADT": -3, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
}
"""Hours of zones in North America, as in dates of e-mail (RFC 5322, 4.3). A zone counts as written, in any season."""
_ZONE = re.compile(
    rf"(?:(?:UTC|GMT)? ?(?P<sign>[+-])(?P<h>\d{{1,2}}?)(?::?(?P<m>[0-5]\d))?(?: ?(?:{'|'.join(_HOURS)}))?"
    rf"|(?P<name>{'|'.join(_HOURS)}))(?: ?\([^()]*\))?",
    re.ASCII | re.IGNORECASE,
)
"""A zone behind a time, as in `GMT-0600 (Central Standard Time)` of JavaScript."""


def day_and_rest(text: str) -> tuple[date, str] | None:
    """The day at the beginning of a text, and what stands behind it; None if it begins with none."""
    for pattern in _DAYS:
        if (found := pattern.fullmatch(text)) is not None:
            written = found.groupdict()
            named, year = (written.get("month") or "").upper(), int(written["y"])
            try:
                month = _MONTHS.index(named) + 1 if named else int(written["m"])
                year += 0 if year > 99 else 2000 if year < 69 else 1900  # as POSIX has it
                return date(year, month, int(written["d"])), written["behind"]
            except ValueError:
                continue
    return None


def read_time(text: str) -> datetime | None:
    """The day in a text, with its time if there is one, and the offset if it has one; None if it is no time."""
    if len(text) > MOST_TIME_CHARACTERS or (text.isdigit() and len(text) != 8):
        return None
    try:
        return datetime.fromisoformat(text)  # most are
    except ValueError:
        pass
    text = " ".join(text.split())
    with suppress(ValueError):
        return datetime.fromisoformat(text.upper())
    found = day_and_rest(_YEAR_LAST.sub(r"\1 \3 \2", text))
    clock = _CLOCK.fullmatch(found[1] or " 0:00") if found is not None else None
    if found is None or clock is None:
        return None
    with suppress(ValueError):
        return _on_clock(found[0], clock)
    return None


def _on_clock(day: date, clock: re.Match[str]) -> datetime:
    """The time of that day. Raises ValueError if there is no such time, or its zone is not known: it is never passed
    over."""
    hour, half, zone = int(clock["h"]), (clock["half"] or "").upper(), None
    if (not half and clock["m"] is None) or (half and not 1 <= hour <= 12):
        raise ValueError
    if half:
        hour = hour % 12 + (12 if half == "P" else 0)
    if clock["zone"]:
        written = _ZONE.fullmatch(clock["zone"])
        if written is None:
            raise ValueError
        name = (written["name"] or "").upper()
        minutes = 60 * _HOURS[name] if name else int(written["h"]) * 60 + int(written["m"] or 0)
        zone = timezone(timedelta(minutes=-minutes if written["sign"] == "-" else minutes))
    part = int(f"{clock['part'] or 0:0<6}"[:6])
    return datetime(day.year, day.month, day.day, hour, int(clock["m"] or 0), int(clock["s"] or 0), part, zone)

"""Converts the local time of a purchase to UTC.

The zone is that of the state. If a state has two, the place of the station decides, by borders drawn with a ruler:
within some miles of such a border, and in counties that keep their own time, a fill may be an hour off. The spans in
which fills are matched are wider than that."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from domain.roads import Point  # loads numpy, and lists of fills need none

_EASTERN, _CENTRAL, _MOUNTAIN, _PACIFIC = (
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
)
_STATES_OF = {
    _EASTERN: "CT DC DE FL GA IN KY MA MD ME MI NC NH NJ NY OH PA RI SC VA VT WV",
    _CENTRAL: "AL AR IA IL KS LA MN MO MS ND NE OK SD TN TX WI",
    _MOUNTAIN: "CO ID MT NM UT WY",
    _PACIFIC: "CA NV OR WA",
}
_ZONES: dict[str, str] = {
    **{state: zone for zone, states in _STATES_OF.items() for state in states.split()},
    "AZ": "America/Phoenix",
    "AK": "America/Anchorage",
    "HI": "Pacific/Honolulu",
    **dict.fromkeys(("NB", "NS", "PE"), "America/Halifax"),
    "NL": "America/St_Johns",
    **dict.fromkeys(("ON", "QC"), "America/Toronto"),
    "MB": "America/Winnipeg",
    "SK": "America/Regina",
    **dict.fromkeys(("AB", "NT"), "America/Edmonton"),
    "BC": "America/Vancouver",
    "YT": "America/Whitehorse",
    "NU": "America/Iqaluit",
    "MX": "America/Mexico_City",
}
CANADA = frozenset(["AB", "BC", "MB", "NB", "NL", "NS", "NT", "NU", "ON", "PE", "QC", "SK", "YT"])

_OTHER_ZONES: dict[str, "tuple[str, Callable[[Point], bool]]"] = {
    "FL": (_CENTRAL, lambda place: place.longitude < -85.1),
    "ID": (_PACIFIC, lambda place: place.latitude > 45.5),
    "IN": (_CENTRAL, lambda place: place.longitude < -86.9 and not 38.6 < place.latitude < 40.9),
    "KS": (_MOUNTAIN, lambda place: place.longitude < -101.5),
    "KY": (_CENTRAL, lambda place: place.longitude < -86.1),
    "MI": (_CENTRAL, lambda place: place.longitude < -87.6 and place.latitude < 46.6),
    "ND": (_MOUNTAIN, lambda place: place.longitude < -101.0 and place.latitude < 47.6),
    "NE": (_MOUNTAIN, lambda place: place.longitude < -101.3),
    "ON": (_CENTRAL, lambda place: place.longitude < -90.0),
    "OR": (_MOUNTAIN, lambda place: place.longitude > -118.2 and place.latitude < 44.5),
    "SD": (_MOUNTAIN, lambda place: place.longitude < -100.9),
    "TN": (_EASTERN, lambda place: place.longitude > -85.4),
    "TX": (_MOUNTAIN, lambda place: place.longitude < -104.9),
}
"""The second zone of a state, and the part of the state with it."""


def is_known_state(state: str | None) -> bool:
    return state in _ZONES


def zone_of(state: str, place: "Point | None") -> str:
    """The time zone of a place in a known state; without a place, that of most of the state."""
    other = _OTHER_ZONES.get(state)
    if other is not None and place is not None and other[1](place):
        return other[0]
    return _ZONES[state]


def utc_of_local(local: datetime, zone: str) -> datetime:
    """The moment of a local time. One without a zone is of the zone that is given: when clocks are set back, the first
    of the two hours counts; a time that is skipped when they are set forward counts as an hour later. The file does not
    tell more."""
    if local.tzinfo is not None:
        return local.astimezone(UTC)
    return local.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)

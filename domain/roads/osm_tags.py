"""Tags of OpenStreetMap as trucks need them: what closes a road, its number, the number of an exit.

People write `4.1`, `4.1 m`, `13'6"`, `13 ft 6 in`, `20 st`, `40000 lbs`, `none` and `default`. Without a unit the wiki
says meters and tonnes. https://wiki.openstreetmap.org/wiki/Map_features/Units"""

import re
from collections.abc import Iterable, Iterator, Mapping

from domain.roads.truck_dimensions import (
    ORDINARY_AXLE_POUNDS,
    ORDINARY_FEET_HIGH,
    ORDINARY_FEET_LONG,
    ORDINARY_FEET_WIDE,
    ORDINARY_POUNDS,
)

FEET_PER_METER = 1 / 0.3048

SLACK_FEET, SLACK_POUNDS = 0.02, 100.0
"""Slack for limits that were converted to meters and tonnes, such as `4.11` for 13'6" and `36.25` for 80,000 lb."""

POUNDS = {
    "": 2204.62, "t": 2204.62, "tonne": 2204.62, "tonnes": 2204.62, "mt": 2204.62,
    "st": 2000.0, "ton": 2000.0, "tons": 2000.0, "lt": 2240.0, "cwt": 112.0, "lb": 1.0, "lbs": 1.0, "pounds": 1.0,
    "kg": 2.20462,
}  # fmt: skip
"""Pounds of a unit of weight. Americans write `ton` and `tons` for short tons."""

_THOUSANDS_UNITS = ("lb", "lbs", "pounds", "kg")
"""Units whose numbers have commas between thousands, such as `80,000 lbs`."""

_NUMBER = r"(\d+(?:[.,]\d+)?)"
_FOOT, _INCH = r"(?:'|ft\.?|feet|foot|′|’|‘|´|`)", r"(?:\"|''|in\.?|inches|″|”|′′)"
_FEET_AND_INCHES = re.compile(rf"{_NUMBER}\s*{_FOOT}\s*-?\s*(?:{_NUMBER}\s*{_INCH}?)?")
_INCHES = re.compile(rf"{_NUMBER}\s*{_INCH}")
_METERS = re.compile(rf"{_NUMBER}\s*(?:m\.?|meters?|metres?)?")
_CENTIMETERS = re.compile(rf"{_NUMBER}\s*cm")
_WEIGHT = re.compile(r"(\d+(?:,\d{3})*(?:[.,]\d+)?)\s*([a-z]*)\.?")

_CLOSED = frozenset(
    ("no", "private", "agricultural", "forestry", "emergency", "military", "destination", "delivery", "customers")
) | {"residents", "permit", "hov"}
"""Values of access that keep through traffic out, or trucks. `hgv=local` is none: such roads are New York's local truck
routes."""

_OPEN = frozenset(("yes", "designated", "permissive", "official", "public"))


def feet(value: str) -> float | None:
    """A height or width in feet; None where the value names no limit, or cannot be read."""
    text = value.strip().lower()
    if found := _FEET_AND_INCHES.fullmatch(text):
        return _number(found[1]) + (_number(found[2]) / 12 if found[2] else 0)
    if found := _INCHES.fullmatch(text):
        return _number(found[1]) / 12
    if found := _CENTIMETERS.fullmatch(text):
        return _number(found[1]) / 100 * FEET_PER_METER
    if found := _METERS.fullmatch(text):
        return _number(found[1]) * FEET_PER_METER
    return None


def pounds(value: str) -> float | None:
    """A weight in pounds; None where the value names no limit, or cannot be read."""
    found = _WEIGHT.fullmatch(value.strip().lower())
    if found is None or found[2] not in POUNDS:
        return None
    number = re.sub(r",(?=\d{3}(?:\D|$))", "", found[1]) if found[2] in _THOUSANDS_UNITS else found[1]
    return _number(number) * POUNDS[found[2]] if number.count(",") < 2 else None


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def lowest_feet(tags: Mapping[str, str], *keys: str) -> float | None:
    """The lowest height or width that the tags name; a value may be a list with semicolons."""
    return min(filter(None, (feet(one) for one in _values(tags, keys))), default=None)


def least_pounds(tags: Mapping[str, str], *keys: str) -> float | None:
    """The least weight that the tags name; a value may be a list with semicolons."""
    return min(filter(None, (pounds(one) for one in _values(tags, keys))), default=None)


def _values(tags: Mapping[str, str], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        yield from tags.get(key, "").split(";")


def is_too_small_for_trucks(tags: Mapping[str, str]) -> bool:
    """Tell if a limit keeps the ordinary truck out. A limit for one direction counts for both."""
    heights = ("maxheight", "maxheight:physical", "maxheight:hgv", "maxheight:forward", "maxheight:backward")
    weights = ("maxweight", "maxweight:hgv", "maxweightrating", "maxweightrating:hgv")
    feet_needed = (
        (lowest_feet(tags, *heights), ORDINARY_FEET_HIGH),
        (lowest_feet(tags, "maxwidth", "maxwidth:physical", "maxwidth:hgv"), ORDINARY_FEET_WIDE),
        (lowest_feet(tags, "maxlength", "maxlength:hgv"), ORDINARY_FEET_LONG),
    )
    pounds_needed = (
        (least_pounds(tags, *weights), ORDINARY_POUNDS),
        (least_pounds(tags, "maxaxleload"), ORDINARY_AXLE_POUNDS),
    )
    return _is_below(feet_needed, SLACK_FEET) or _is_below(pounds_needed, SLACK_POUNDS)


def _is_below(limits: Iterable[tuple[float | None, float]], slack: float) -> bool:
    return any(limit is not None and limit < needed - slack for limit, needed in limits)


def is_closed_to_trucks(tags: Mapping[str, str]) -> bool:
    """Tell if a truck on its way may not drive here. The tag nearest to trucks counts. A road whose direction changes
    with the hour is closed: a plan does not know the hour of each mile."""
    if tags.get("oneway") == "reversible" or "-1" in tags.get("oneway:conditional", ""):
        return True
    for key in ("hgv", "motor_vehicle", "vehicle", "access"):
        values = {one.strip() for one in tags.get(key, "").split(";")}
        if values & _CLOSED or _closes_by_weight(tags.get(f"{key}:conditional", "")):
            return True
        if values & _OPEN:
            return False
    return False


_CONDITION = re.compile(r"\s*([a-z_]+)\s*@\s*\(?\s*(?:weight|weightrating|maxweight)\s*>=?\s*([^)]+)\)?\s*")


def _closes_by_weight(conditional: str) -> bool:
    """Tell if a value such as `no @ (weight>7.5)` closes the road to the ordinary truck at any hour. Other conditions
    do not count."""
    found = (_CONDITION.fullmatch(one) for one in conditional.split(";"))
    limits = (pounds(match[2]) for match in found if match and match[1] in _CLOSED)
    return any(limit is not None and limit < ORDINARY_POUNDS for limit in limits)


def one_way(tags: Mapping[str, str]) -> int:
    """1 where traffic runs in the direction of the way, -1 against it, 0 both ways. Motorways and roundabouts are
    one-way unless they say no."""
    value = tags.get("oneway", "")
    if value in ("yes", "true", "1"):
        return 1
    if value in ("-1", "reverse"):
        return -1
    implied = tags.get("highway") == "motorway" or tags.get("junction") in ("roundabout", "circular")
    return 1 if implied and value != "no" else 0


_KINDS = (
    "Alternate|Alt|Business|Bus|BL|BR|BS|Bypass|Byp|Connector|Conn|Express|Frontage|Loop|Scenic|Spur|Toll|Truck|Trk"
)
_REF = re.compile(rf"([A-Z][A-Za-z]{{0,7}})[ -]?(\d{{1,4}}[A-Z]{{0,2}})(?: ((?i:{_KINDS})))?(?:[ .].*)?")
_RANK = {"I": 0, "US": 1}


def route_number(ref: str) -> str | None:
    """The number on the shield of a road, such as `I-80` for `US 6;I 80`: interstates first, then US routes, then the
    first one that the tag names. A business route is another road than its parent. None where the tag names none."""
    found = [match for one in ref.split(";") if (match := _REF.fullmatch(one.strip()))]
    best = min(found, key=lambda match: (match[3] is not None, _RANK.get(match[1], 2)), default=None)
    if best is None:
        return None
    return f"{best[1]}-{best[2]} {best[3]}" if best[3] else f"{best[1]}-{best[2]}"


def route_of_relation(tags: Mapping[str, str]) -> str | None:
    """The number of a route relation, as `route_number` writes it: network `US:I` and ref `80` are `I-80`. None for
    business routes and their like."""
    system = tags.get("network", "").split(":")
    ref = tags.get("ref", "").strip()
    if len(system) < 2 or not re.fullmatch(r"\d{1,4}[A-Z]{0,2}", ref) or re.fullmatch(_KINDS, system[-1]):
        return None
    return f"{system[1]}-{ref}"


def signed_direction(value: str) -> str | None:
    """The letter on the sign, `E` for `east` or `eastbound`."""
    found = re.fullmatch(r"(north|south|east|west)(bound)?", value.strip().lower())
    return found[1][0].upper() if found else None


def exit_number(tags: Mapping[str, str]) -> str | None:
    """The number of the exit that leaves here: `122`, `440A`, `12A-B`."""
    if tags.get("highway") != "motorway_junction":
        return None
    ref = re.sub(r"\s*[;,/]\s*", "-", tags.get("ref", "").strip())
    return ref if re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z-]{0,9}", ref) else None

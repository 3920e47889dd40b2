"""Tags of OpenStreetMap as trucks need them: what closes a road, its number, the number of an exit.

People write `4.1`, `4.1 m`, `13'6"`, `13 ft 6 in`, `20 st`, `40000 lbs`, `none` and `default`. Without a unit the wiki
says meters and tonnes. https://wiki.openstreetmap.org/wiki/Map_features/Units"""

import re
from collections.abc import Iterable, Iterator, Mapping

FEET_PER_METER = 1 / 0.3048
POUNDS = {
    "": 2204.62, "t": 2204.62, "ton": 2204.62, "tonne": 2204.62, "tonnes": 2204.62, "mt": 2204.62,
    "st": 2000.0, "tons": 2000.0, "lt": 2240.0, "cwt": 112.0, "lb": 1.0, "lbs": 1.0, "kg": 2.20462,
}  # fmt: skip
"""Pounds of a unit of weight. `tons` is what Americans write on short tons."""

_NUMBER = r"(\d+(?:[.,]\d+)?)"
_FEET_AND_INCHES = re.compile(rf"{_NUMBER}\s*(?:'|ft\.?|feet|foot|′|’)\s*(?:{_NUMBER}\s*(?:\"|''|in\.?|inches|″|”)?)?")
_INCHES = re.compile(rf"{_NUMBER}\s*(?:\"|in|inches|″)")
_METERS = re.compile(rf"{_NUMBER}\s*(?:m|meters|metres)?")
_CENTIMETERS = re.compile(rf"{_NUMBER}\s*cm")
_WEIGHT = re.compile(rf"{_NUMBER}\s*([a-z]*)")

_CLOSED = frozenset(("no", "private", "agricultural", "forestry", "emergency", "destination", "delivery", "customers"))
"""Values of access that keep through traffic out."""

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
    return _number(found[1]) * POUNDS[found[2]] if found and found[2] in POUNDS else None


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


def is_closed_to_trucks(tags: Mapping[str, str]) -> bool:
    """Tell if a truck on its way may not drive here. The tag nearest to trucks counts."""
    for key in ("hgv", "goods", "motor_vehicle", "vehicle", "access"):
        value = tags.get(key, "")
        if value in _CLOSED:
            return True
        if value in _OPEN:
            return False
    return False


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


_REF = re.compile(r"([A-Z][A-Za-z]{0,7})[ -]?(\d{1,4}[A-Z]{0,2})(?: .*)?")
_RANK = {"I": 0, "US": 1}


def route_number(ref: str) -> str | None:
    """The number on the shield of a road, such as `I-80` for `US 6;I 80`: interstates first, then US routes, then the
    first one that the tag names. None where it names none."""
    found = [match for one in ref.split(";") if (match := _REF.fullmatch(one.strip()))]
    best = min(found, key=lambda match: _RANK.get(match[1], 2), default=None)
    return f"{best[1]}-{best[2]}" if best else None


def route_of_relation(tags: Mapping[str, str]) -> str | None:
    """The number of a route relation, as `route_number` writes it: network `US:I` and ref `80` are `I-80`."""
    system = tags.get("network", "").split(":")
    ref = tags.get("ref", "").strip()
    return f"{system[1]}-{ref}" if len(system) > 1 and re.fullmatch(r"\d{1,4}[A-Z]{0,2}", ref) else None


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

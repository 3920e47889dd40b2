"""The text of a message to a driver.

Every line is written here: a name from outside cannot forge one. No line is longer than a text message. Our own words
need only the characters of plain text messages."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.ids import shown_id
from domain.lifecycle import MapLink
from domain.planning.directions import Directions
from domain.wording import purchase_in_words

_OPENING = "Fuel plan"
_OPENING_CORRECTED = "CORRECTED fuel plan"
_LOW_FUEL = "LOW FUEL"

LONGEST_LINE = 160
"""Characters of one text message."""

OFF_ROAD_NOTICE_MILES = 2.0
"""Distance from the road above which the text mentions it. A nearer truck stop stands at an exit, and the map leads
there."""

LINK_PATH = "/d/"
"""The path of the driver's page, before the token."""

_CUT = "..."
_LINK = "Your trip on a page"
_IS_LINK = re.compile(rf".*: https?://\S+{LINK_PATH}\S+")
_BEGINS_STOP = re.compile(r"[0-9]+\. ")
_NOT_IN_A_LINE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]+"
)
"""Control characters, line ends, and characters that change the writing direction."""


def compose(
    message_id: UUID,
    route_name: str,
    unit_number: str | None,
    stops: Sequence[Mapping[str, Any]],
    plan: Mapping[str, Any],
    *,
    planned_at: datetime,
    time_zone: str,
    map_link: str = MapLink.GOOGLE,
    directions: Sequence[Directions] = (),
    low_fuel: bool = False,
    road_miles: float | None = None,
    why: str = "",
) -> str:
    """The message of a plan, with its fuel stops in driving order. `stops` and `plan` are documents of the API:

    Fuel plan for LOAD-7, truck 101
    To: Port Newark, mile 812
    Planned Fri Nov 20 04:00 CST
    1. Lakeside Travel Plaza, 100 Exit Rd, Elkhart, IN
    Mile 130, heading east, 12 mi after Goshen, IN: fill to 81 % (100.0 gal) at $3.455 = $345.50. Next: mile 546
    https://www.google.com/maps/dir/?api=1&destination=41.70000,-86.00000
    2. Keystone Fuel
    Mile 546: 50.0 gal at $3.500 = $175.00. Next: destination, mile 812
    https://www.google.com/maps/dir/?api=1&destination=41.00000,-78.40000
    2 fuel stops, 150.0 gal, $520.50
    Message msg_01k4...

    A stop without `fillToPercent`, because the truck's gauge does not tell a level, names gallons alone, as the second
    one here. The notes of a stop's directions are lines of their own above its map. Where the road has a known sign,
    its direction takes the place of the heading: `Mile 130, I-80 E, exit 122, 12 mi after Goshen, IN: ...`.

    Where the truck has to use some of its reserve, a line before these says so, and where to fuel first. `road_miles`
    is the mile of the destination. Where it lies beyond the end of the plan, a line says where the plan ends. `why` is
    the reason of a new plan that the driver should know, for a line after the time.
    """
    end = plan["totalDistanceMiles"]
    destination_mile = max(end, road_miles or end)
    is_cut = destination_mile > end
    end_of_plan = f"{'the end of this plan' if is_cut else 'destination'}, mile {end:.0f}"
    lines = [_low_fuel(plan, is_cut)] if low_fuel else []
    lines += [
        _title(route_name, unit_number),
        _line(f"To: {{}}, mile {destination_mile:.0f}", stops[-1]["name"]),
        f"Planned {planned_at.astimezone(ZoneInfo(time_zone)):%a %b %d %H:%M %Z}",
    ]
    if why:
        lines.append(_line("Why: {}", why))
    for stop in plan["stops"]:
        lines += _fuel_stop(stop, plan, directions[stop["sequence"]] if directions else None, map_link, end_of_plan)
    lines.append(_totals(plan, is_cut))
    if is_cut:
        lines.append(
            f"This plan ends at mile {end:.0f} of {destination_mile:.0f}. Ask for the next one before you are there."
        )
    lines.append(f"Message {shown_id('msg', message_id)}")
    return "\n".join(lines)


def _title(route_name: str, unit_number: str | None) -> str:
    """The first line, short enough that the longer one of a correction fits, too."""
    room = LONGEST_LINE - len(_OPENING_CORRECTED) + len(_OPENING)
    if unit_number:
        return _line(f"{_OPENING} for {{}}, truck {{}}", route_name, unit_number, longest=room)
    return _line(f"{_OPENING} for {{}}", route_name, longest=room)


def _totals(plan: Mapping[str, Any], is_cut: bool) -> str:
    count = len(plan["stops"])
    if not count:
        up_to = f" up to mile {plan['totalDistanceMiles']:.0f}" if is_cut else ""
        return f"No fuel stop is needed{up_to}: the fuel on board is enough."
    return f"{count} fuel stop{'s' if count > 1 else ''}, {plan['totalGallons']:.1f} gal, ${plan['totalCost']:.2f}"


def _fuel_stop(
    stop: Mapping[str, Any], plan: Mapping[str, Any], directions: Directions | None, map_link: str, end_of_plan: str
) -> list[str]:
    """The lines of a stop: the place; the purchase and the next stop; the notes; the map."""
    number = stop["sequence"] + 1
    place = [stop["name"], *([stop["address"]] if stop["address"] else [])]
    town = [directions.town] if directions is not None and directions.town else []
    purchase = purchase_in_words(stop["gallonsToFill"], stop.get("fillToPercent"))
    ahead = plan["stops"][number : number + 1]
    next_stop = f"mile {ahead[0]['milesFromOrigin']:.0f}" if ahead else end_of_plan
    rest = f"{purchase} at ${stop['pricePerGallon']:.3f} = ${stop['totalCost']:.2f}. Next: {next_stop}"
    lines = [f"Mile {stop['milesFromOrigin']:.0f}{way}{', {}' if town else ''}: {rest}" for way in _ways_to(directions)]
    # A sign for which the town would be cut is left out.
    line = next((line for line in lines if len(line.format(*map(one_line, town))) <= LONGEST_LINE), lines[-1])
    return [
        _line(f"{number}. {', '.join('{}' for _ in place)}", *place),
        _line(line, *town),
        *(_line("{}", note) for note in (directions.notes if directions is not None else ())),
        _map(stop["latitude"], stop["longitude"], map_link),
    ]


def _ways_to(directions: Directions | None) -> list[str]:
    """The way to a stop, the fullest form first: with the sign of the road where it is known, then with the heading."""
    if directions is None:
        return [""]
    off = ""
    if directions.off_road_miles >= OFF_ROAD_NOTICE_MILES:
        off = f", then {directions.off_road_miles:.0f} mi off the road"
    heading = f", heading {directions.heading}" if directions.heading else ""
    if directions.sign is None:
        return [heading + off]
    told = "" if directions.sign.has_direction else heading
    return [f", {directions.sign.in_words()}{told}{off}", heading + off]


def _map(latitude: float, longitude: float, map_link: str) -> str:
    place = f"{latitude:.5f},{longitude:.5f}"
    if map_link == MapLink.GEO:
        return f"geo:{place}?q={place}"  # with `q` the map shows a pin there
    return f"https://www.google.com/maps/dir/?api=1&destination={place}"


def _low_fuel(plan: Mapping[str, Any], is_cut: bool) -> str:
    if not plan["stops"]:
        end = "end of this plan" if is_cut else "destination"
        return f"{_LOW_FUEL}: the tank will be below its reserve at the {end}. No station on the way can help."
    first = plan["stops"][0]
    mile, percent = f"{first['milesFromOrigin']:.0f}", first["arrivalFuelPercent"]
    return _line(
        f"{_LOW_FUEL}: drive to {{}}, mile {mile}, before anything else. The tank will be at {percent} % there.",
        first["name"],
    )


def corrected(text: str) -> str:
    """The text for a driver who has, or may have, another plan for this load: it says that it is a correction. A
    corrected text stays as it is."""
    first, line_end, rest = text.partition("\n")
    if first.startswith(_LOW_FUEL):
        return first + line_end + corrected(rest)
    return _OPENING_CORRECTED + text.removeprefix(_OPENING) if text.startswith(_OPENING) else text


def with_link(text: str, address: str | None) -> str:
    """The text with one line that leads to the page of the trip, before its last line; None: without such a line."""
    lines, ending = _parted(text)
    link = [f"{_LINK}: {address}"] if address is not None else []
    return "\n".join([*lines, *link, ending[-1]])


def _parted(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text, and the lines that end it: the link to the page, where it has one, and the message's id."""
    lines = text.split("\n")
    ending = 2 if len(lines) > 1 and _IS_LINK.fullmatch(lines[-2]) else 1
    return lines[:-ending], lines[-ending:]


def one_line(name: str) -> str:
    """A name from outside, without the characters that could end a line of the message."""
    return _NOT_IN_A_LINE.sub(" ", name).strip()


def _line(template: str, *names: str, longest: int = LONGEST_LINE) -> str:
    """The template with a name for each `{}`. If the line would be too long, the longest names are cut."""
    shown = [one_line(name) for name in names]
    room = longest - len(template.format(*("" for _ in shown)))
    most = next(most for most in range(room, 0, -1) if sum(min(len(name), most) for name in shown) <= room)
    return template.format(*(_shortened(name, most) for name in shown))


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - len(_CUT)].rstrip() + _CUT


def fitted(text: str, most_characters: int) -> str:
    """The text for an app that takes at most this many characters. A longer text ends after a whole fuel stop; then a
    line says so. The link to the page and the message's id stay the last lines."""
    if len(text) <= most_characters:
        return text
    lines, ending = _parted(text)
    stops = [number for number, line in enumerate(lines) if _BEGINS_STOP.match(line)]
    for count in range(len(stops) - 1, -1, -1):
        cut = f"Cut here, after fuel stop {count} of {len(stops)}: the app takes no more. Ask dispatch for the others."
        shorter = "\n".join([*lines[: stops[count]], cut, *ending])
        if len(shorter) <= most_characters:
            return shorter
    return text[:most_characters]

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
from domain.languages.tags import Language
from domain.languages.words import ENGLISH, Words, capitalized, purchase_in_words, text_to_say
from domain.lifecycle import MapLink
from domain.planning.directions import Directions
from domain.text import one_line

OPENING = text_to_say("Fuel plan")
OPENING_CORRECTED = text_to_say("CORRECTED fuel plan")
LOW_FUEL = text_to_say("LOW FUEL")
"""A message begins with one of these, in its language."""

LONGEST_LINE = 160
"""Characters of one text message."""

OFF_ROAD_NOTICE_MILES = 2.0
"""Distance from the road above which the text mentions it. A nearer truck stop stands at an exit, and the map leads
there."""

LINK_PATH = "/d/"
"""The path of the driver's page, before the token."""

_CUT = "..."
_LINK = text_to_say("Your trip on a page")
_IS_LINK = re.compile(rf".*: https?://\S+{LINK_PATH}\S+")
_BEGINS_STOP = re.compile(r"[0-9]+\. ")


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
    tells_prices: bool = True,
    words: Words = ENGLISH,
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
    the reason of a new plan that the driver should know, for a line after the time. `directions` and `why` are in
    the language of `words`. Without `tells_prices` no price and no cost of a purchase is told. The last line is in
    English in every language: apps in the cab are searched for it.
    """
    end = plan["totalDistanceMiles"]
    destination_mile = max(end, road_miles or end)
    is_cut = destination_mile > end
    if is_cut:
        end_of_plan = words.say("the end of this plan, {mile}", mile=words.mile(end))
    else:
        end_of_plan = words.say("destination, {mile}", mile=words.mile(end))
    destination = words.mile(destination_mile)
    lines = [_low_fuel(plan, is_cut, words)] if low_fuel else []
    lines += [
        _title(route_name, unit_number, words),
        _line(words, text_to_say("To: {place}, {mile}"), {"place": stops[-1]["name"]}, mile=destination),
        words.say("Planned {moment}", moment=words.moment(planned_at.astimezone(ZoneInfo(time_zone)))),
    ]
    if why:
        lines.append(_line(words, text_to_say("Why: {reason}"), {"reason": why}))
    for stop in plan["stops"]:
        told = directions[stop["sequence"]] if directions else None
        lines += _fuel_stop(stop, plan, told, map_link, end_of_plan, words, tells_prices=tells_prices)
    lines.append(_totals(plan, is_cut, words, tells_prices=tells_prices))
    if is_cut:
        text = text_to_say("This plan ends at {mile} of {last}. Ask for the next one before you are there.")
        lines.append(words.say(text, mile=words.mile(end), last=words.road_number(destination_mile)))
    lines.append(f"Message {shown_id('msg', message_id)}")
    return "\n".join(lines)


def _title(route_name: str, unit_number: str | None, words: Words) -> str:
    """The first line, short enough that the longer one of a correction fits, too."""
    opening = words.say(OPENING)
    room = LONGEST_LINE - len(words.say(OPENING_CORRECTED)) + len(opening)
    if unit_number:
        text, names = text_to_say("{opening} for {route}, truck {unit}"), {"route": route_name, "unit": unit_number}
    else:
        text, names = text_to_say("{opening} for {route}"), {"route": route_name}
    return _line(words, text, names, longest=room, opening=opening)


def _totals(plan: Mapping[str, Any], is_cut: bool, words: Words, *, tells_prices: bool) -> str:
    count = len(plan["stops"])
    if count and not tells_prices:
        volume = words.volume(plan["totalGallons"])
        return words.say_many("{count} fuel stop, {volume}", "{count} fuel stops, {volume}", count, volume=volume)
    if count:
        totals = {"volume": words.volume(plan["totalGallons"]), "cost": words.money(plan["totalCost"])}
        return words.say_many(
            "{count} fuel stop, {volume}, {cost}", "{count} fuel stops, {volume}, {cost}", count, **totals
        )
    if is_cut:
        mile = words.mile(plan["totalDistanceMiles"])
        return words.say("No fuel stop is needed up to {mile}: the fuel on board is enough.", mile=mile)
    return words.say("No fuel stop is needed: the fuel on board is enough.")


def _fuel_stop(
    stop: Mapping[str, Any],
    plan: Mapping[str, Any],
    directions: Directions | None,
    map_link: str,
    end_of_plan: str,
    words: Words,
    *,
    tells_prices: bool,
) -> list[str]:
    """The lines of a stop: the place; the purchase and the next stop; the notes; the map."""
    number = f"{stop['sequence'] + 1}. "
    place = {"name": stop["name"], **({"address": stop["address"]} if stop["address"] else {})}
    room = LONGEST_LINE - len(number) - len(", ") * (len(place) - 1)
    return [
        number + ", ".join(_cut(place, room).values()),
        _purchase(stop, plan, directions, end_of_plan, words, tells_prices=tells_prices),
        *(_cut({"note": note}, LONGEST_LINE)["note"] for note in (directions.notes if directions is not None else ())),
        map_address(stop["latitude"], stop["longitude"], map_link),
    ]


def _purchase(
    stop: Mapping[str, Any],
    plan: Mapping[str, Any],
    directions: Directions | None,
    end_of_plan: str,
    words: Words,
    *,
    tells_prices: bool,
) -> str:
    """The line of the way to a stop, the purchase there, and the next stop."""
    ahead = plan["stops"][stop["sequence"] + 1 : stop["sequence"] + 2]
    values = {
        "purchase": purchase_in_words(stop["gallonsToFill"], stop.get("fillToPercent"), words),
        "price": words.price_of_volume(stop["pricePerGallon"]),
        "cost": words.money(stop["totalCost"]),
        "next": words.mile(ahead[0]["milesFromOrigin"]) if ahead else end_of_plan,
    }

    def line(way: str) -> str:
        text = text_to_say("{way}: {purchase} at {price} = {cost}. Next: {next}")
        if not tells_prices:
            text = text_to_say("{way}: {purchase}. Next: {next}")
        return words.say(text, way=way, **values)

    mile = capitalized(words.mile(stop["milesFromOrigin"]))
    town = one_line(directions.town or "") if directions is not None else ""
    ways = [", ".join([mile, *way, *([""] if town else [])]) for way in _ways_to(directions, words)]
    # A sign for which the town would be cut is left out.
    way = next((way for way in ways if len(line(way + town)) <= LONGEST_LINE), ways[-1])
    return line(way + _cut({"town": town}, LONGEST_LINE - len(line(way)))["town"])


def _ways_to(directions: Directions | None, words: Words) -> list[list[str]]:
    """The parts of the way to a stop, the fullest first: with the sign of the road where it is known, then with the
    heading."""
    if directions is None:
        return [[]]
    off = []
    if directions.off_road_miles >= OFF_ROAD_NOTICE_MILES:
        off = [words.say("then {distance} off the road", distance=words.distance(directions.off_road_miles))]
    heading = [words.say("heading {direction}", direction=directions.heading)] if directions.heading else []
    sign = directions.sign
    if sign is None:
        return [heading + off]
    exit_to = [words.say("exit {number}", number=sign.exit)] if sign.exit is not None else []
    return [[sign.name, *exit_to, *([] if sign.has_direction else heading), *off], heading + off]


def map_address(latitude: float, longitude: float, map_link: str) -> str:
    """The address that shows a place on the phone's map."""
    place = f"{latitude:.5f},{longitude:.5f}"
    if map_link == MapLink.GEO:
        return f"geo:{place}?q={place}"  # with `q` the map shows a pin there
    return f"https://www.google.com/maps/dir/?api=1&destination={place}"


def _low_fuel(plan: Mapping[str, Any], is_cut: bool, words: Words) -> str:
    opening = words.say(LOW_FUEL)
    if not plan["stops"]:
        below = text_to_say(
            "{opening}: the tank will be below its reserve at the destination. No station on the way can help."
        )
        if is_cut:
            below = text_to_say(
                "{opening}: the tank will be below its reserve at the end of this plan. No station on the way can help."
            )
        return words.say(below, opening=opening)
    first = plan["stops"][0]
    return _line(
        words,
        text_to_say(
            "{opening}: drive to {station}, {mile}, before anything else. The tank will be at {percent} % there."
        ),
        {"station": first["name"]},
        opening=opening,
        mile=words.mile(first["milesFromOrigin"]),
        percent=first["arrivalFuelPercent"],
    )


def corrected(text: str) -> str:
    """The text for a driver who has, or may have, another plan for this load: it says that it is a correction. A
    corrected text stays as it is, in every language."""
    first, line_end, rest = text.partition("\n")
    for words in map(Words, Language):
        if first.startswith(words.say(LOW_FUEL)):
            return first + line_end + corrected(rest)
        if first.startswith(words.say(OPENING)):
            return words.say(OPENING_CORRECTED) + text.removeprefix(words.say(OPENING))
    return text


def _words_of(text: str) -> Words:
    """The language of a message, by its first line."""
    openings = (OPENING, OPENING_CORRECTED, LOW_FUEL)
    return next((words for words in map(Words, Language) if text.startswith(tuple(map(words.say, openings)))), ENGLISH)


def with_link(text: str, address: str | None) -> str:
    """The text with one line that leads to the page of the trip, before its last line; None: without such a line."""
    lines, ending = _parted(text)
    link = [f"{_words_of(text).say(_LINK)}: {address}"] if address is not None else []
    return "\n".join([*lines, *link, ending[-1]])


def _parted(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text, and the lines that end it: the link to the page, where it has one, and the message's id."""
    lines = text.split("\n")
    ending = 2 if len(lines) > 1 and _IS_LINK.fullmatch(lines[-2]) else 1
    return lines[:-ending], lines[-ending:]


def _line(words: Words, text: str, names: Mapping[str, str], *, longest: int = LONGEST_LINE, **values: object) -> str:
    """A text with its names and values. If the line would be too long, the longest names are cut."""
    room = longest - len(words.say(text, **values, **dict.fromkeys(names, "")))
    return words.say(text, **values, **_cut(names, room))


def _cut(names: Mapping[str, str], room: int) -> dict[str, str]:
    """The names, each in one line, the longest of them cut so that all fit."""
    shown = {key: one_line(name) for key, name in names.items()}
    lengths = [len(name) for name in shown.values()]
    most = next((most for most in range(room, 0, -1) if sum(min(length, most) for length in lengths) <= room), 0)
    return {key: shortened(name, most) for key, name in shown.items()}


def shortened(name: str, most: int) -> str:
    """The name in one line, cut so that it has at most that many characters."""
    name = one_line(name)
    return name if len(name) <= most else name[: max(most - len(_CUT), 0)].rstrip() + _CUT[:most]


def fitted(text: str, most_characters: int) -> str:
    """The text for an app that takes at most this many characters. A longer text ends after a whole fuel stop; then a
    line says so. The link to the page and the message's id stay the last lines."""
    if len(text) <= most_characters:
        return text
    lines, ending = _parted(text)
    stops = [number for number, line in enumerate(lines) if _BEGINS_STOP.match(line)]
    for count in range(len(stops) - 1, -1, -1):
        cut = _words_of(text).say(
            "Cut here, after fuel stop {count} of {stops}: the app takes no more. Ask dispatch for the others.",
            count=count,
            stops=len(stops),
        )
        shorter = "\n".join([*lines[: stops[count]], cut, *ending])
        if len(shorter) <= most_characters:
            return shorter
    return text[:most_characters]

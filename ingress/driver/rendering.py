"""Renders the page of a driver's trip. Every value in it is escaped, so a pushed text is never markup."""

import base64
import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from markupsafe import escape

from domain.driver_page.shown_trip import (
    PlanChanges,
    ShownAnswer,
    ShownChoice,
    ShownFuelStop,
    ShownPriceChange,
    ShownStop,
    ShownTown,
    ShownTrip,
    ShownTruck,
    ShownWayOut,
)
from domain.ids import shown_id
from domain.languages.catalogues import is_checked
from domain.languages.tags import OWN_NAMES
from domain.languages.words import ENGLISH, Words, capitalized, purchase_in_words, text_to_say
from domain.lifecycle import AnswerKind, ChoiceKind, ChoiceStatus, RefusalReason
from domain.messages.message_text import OFF_ROAD_NOTICE_MILES, map_address, shortened
from domain.roads import Point

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
STATIC = _HERE / "static"

STYLES = (_HERE / "templates" / "page.css").read_text(encoding="utf-8")
STYLES_HASH = base64.b64encode(hashlib.sha256(STYLES.encode()).digest()).decode()
"""The hash by which the content security policy knows the page's styles."""

MOST_PAGE_BYTES = 50_000
"""Most bytes of a page. With its scripts a phone loads less than 60 KB, whatever the names of 50 stops are."""
_LONGEST_TEXTS = (80, 40, 20, 10)
"""Most characters of a name or an address on the page: the first of these with which it has no more bytes."""

_CAUSES = {
    "fuel": text_to_say("The fuel level has changed."),
    "prices": text_to_say("Prices have changed."),
    "dispatcher": text_to_say("Your dispatcher asked for it."),
    "off_road": text_to_say("The truck is on another road."),
    "stop_passed": text_to_say("A planned fuel stop is behind the truck."),
    "refused": text_to_say("You cannot fuel where the plan said."),
    "choice": text_to_say("Another plan was chosen."),
    "station_closed": text_to_say("A station is closed."),
    "burn": text_to_say("The fuel does not last to the next fuel stop."),
    "level": text_to_say("The truck needs a higher level at its next fuel stop."),
}
"""Why there is a new plan, by the kind of its cause."""


_REASONS = {
    RefusalReason.CLOSED: text_to_say("It is closed"),
    RefusalReason.QUEUE: text_to_say("The queue is too long"),
    RefusalReason.NO_PARKING: text_to_say("There is no parking"),
    RefusalReason.NO_TIME: text_to_say("I have no time"),
    RefusalReason.OUT_OF_NETWORK: text_to_say("My card is not taken there"),
    RefusalReason.OTHER: text_to_say("Another reason"),
}
"""The reasons why a driver cannot fuel at a stop, as he says them."""


_CHOICES = {
    ChoiceKind.CHEAPEST: text_to_say("Back to the cheapest plan"),
    ChoiceKind.OTHER_CHAIN: text_to_say("Another chain"),
    ChoiceKind.EARLIER: text_to_say("An earlier stop"),
    ChoiceKind.LATER: text_to_say("A later stop"),
    ChoiceKind.FEWER_STOPS: text_to_say("One stop fewer"),
    ChoiceKind.AMENITIES: text_to_say("Parking or showers"),
}

_DECIDED = {
    ChoiceStatus.ASKED: text_to_say("Your dispatcher was asked and decides."),
    ChoiceStatus.TAKEN: text_to_say("Its plan is being made."),
    ChoiceStatus.CHOSEN: text_to_say("You have chosen it."),
    ChoiceStatus.DECLINED: text_to_say("Your dispatcher declined it."),
    ChoiceStatus.REFUSED: text_to_say("It is not possible any more."),
}
"""The state of a choice that cannot be taken now."""

_SAYS = re.compile(r'\bsay\("([^"]+)"(?:, )?')


_CUT = secrets.token_hex(8)
"""Stands in a page before and behind the name of what is put in when it is shown: the values of the truck, and the
styles, so that kept pages share them. No text from outside can know it."""
_AS_OF, _STYLES_NAME = "as of", b"styles"
_STYLES = STYLES.encode()


def make_trip_page(trip: ShownTrip, words: Words = ENGLISH, *, fault: str = "") -> bytes:
    """The page of a trip. `fault` says why an answer could not be taken, in his language."""
    return fill_trip_page(cut_trip_page(trip, words, fault=fault), trip.truck, trip.time_zone, words)


def cut_trip_page(trip: ShownTrip, words: Words, *, fault: str = "") -> tuple[bytes, ...]:
    """The page of a trip, cut where the values of the truck and the styles stand: each second part is such a name."""
    plan_id = shown_id("pln", trip.plan.id) if trip.plan is not None else ""
    page, zone = templates_of(words).get_template("page.html"), ZoneInfo(trip.time_zone)
    made = b""
    for longest in _LONGEST_TEXTS:
        made = page.render(trip=trip, zone=zone, plan_id=plan_id, fault=fault, longest=longest).encode()
        if len(made) + len(_STYLES) <= MOST_PAGE_BYTES:
            break
    return tuple(made.split(_CUT.encode()))


def fill_trip_page(parts: Sequence[bytes], truck: ShownTruck, time_zone: str, words: Words) -> bytes:
    """The page whose parts these are, with the values of the truck."""
    values = {b"%d" % number: words.distance(miles or 0.0) for number, miles in enumerate(truck.miles_away)}
    if truck.at is not None:
        values[_AS_OF.encode()] = _Told(words).moment(truck.at, ZoneInfo(time_zone))
    filled = list(parts)
    filled[1::2] = (_STYLES if name == _STYLES_NAME else escape(values[name]).encode() for name in parts[1::2])
    return b"".join(filled)


def make_empty_page(title: str, text: str, words: Words = ENGLISH) -> bytes:
    """A page that shows no trip. Title and text are texts to say."""
    page = templates_of(words).get_template("nothing.html")
    return page.render(title=words.say(title), text=words.say(text)).encode()


@cache
def templates_of(words: Words) -> "Environment":
    """The templates in a language and its units, compiled with the texts in place: only the values of a trip cost its
    page something."""
    from jinja2 import DictLoader, Environment, StrictUndefined  # a process without the page does not load it

    templates = Environment(
        loader=DictLoader({path.name: _translated(path, words) for path in (_HERE / "templates").glob("*.html")}),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    told = _Told(words)
    templates.filters |= {name: getattr(told, name) for name in dir(told) if not name.startswith("_")}
    templates.filters |= {"put": str.format, "short": shortened}
    templates.globals |= {
        "styles": STYLES,
        "versions": {path.name: _version(path) for path in STATIC.iterdir()},
        "language": words.language,
        "units": words.units,
        "is_checked": is_checked(words.language),
        "as_of": _AS_OF,
    }
    reasons = {reason: words.say(text) for reason, text in _REASONS.items()}
    templates.globals |= {  # the same on every page in the language
        "language_links": templates.get_template("_language_links.html").render(own_names=OWN_NAMES),
        "reason_buttons": templates.get_template("_reason_buttons.html").render(reasons=reasons),
    }
    return templates


def _translated(path: Path, words: Words) -> str:
    """A template with its texts in a language: of `say("Trip {name}", name=x)` becomes `"Viaje {name}"|put(name=x)`. A
    text without values is put into the page when the template is compiled."""
    return _SAYS.sub(lambda said: f'"{words.text(said[1])}"|put(', path.read_text(encoding="utf-8"))


class _Told:
    """The values of a trip's page in words. Each method is a filter of the templates."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self.distance, self.mile, self.money = words.distance, words.mile, words.money

    def put_in_later(self, name: int | str) -> str:
        """The place of what each page is filled with: the number of a fuel stop ahead, from 0, for its miles from the
        truck; the time of the truck's fix; the styles."""
        return f"{_CUT}{name}{_CUT}"

    def moment(self, at: datetime, zone: ZoneInfo) -> str:
        try:
            return self._words.moment(at.astimezone(zone))
        except OverflowError:  # the first and the last day that there are
            return self._words.moment(at)

    def purchase(self, stop: ShownFuelStop) -> str:
        return capitalized(purchase_in_words(stop.gallons, stop.fill_to_percent, self._words)).replace(" %", "\u00a0%")

    def price(self, stop: ShownFuelStop) -> str:
        price = self._words.price_of_volume(stop.price_per_gallon)
        text = text_to_say("{price} a gallon")
        if self._words.units.is_metric:
            text = text_to_say("{price} a litre")
        return self._words.say(text, price=price)

    def way_to(self, stop: ShownFuelStop) -> str:
        """The road, the exit and the side: `I-80 E, exit 122, on the right`."""
        say = self._words.say
        parts = [stop.road] if stop.road else []
        if stop.road is None and stop.heading is not None:
            parts.append(say("heading {direction}", direction=say(stop.heading)))
        if stop.exit is not None:
            parts.append(say("exit {number}", number=stop.exit))
        if stop.is_on_left is not None:
            parts.append(say("on the left") if stop.is_on_left else say("on the right"))
        if stop.off_road_miles >= OFF_ROAD_NOTICE_MILES:
            parts.append(say("then {distance} off the road", distance=self._words.distance(stop.off_road_miles)))
        return capitalized(", ".join(parts))

    def town(self, town: ShownTown, longest: int) -> str:
        text = text_to_say("{distance} before {town}") if town.is_ahead else text_to_say("{distance} after {town}")
        return self._words.say(text, distance=self._words.distance(town.miles), town=shortened(town.name, longest))

    def way_out(self, way_out: ShownWayOut | None, longest: int) -> str:
        say = self._words.say
        if way_out is None:
            return say("If it is closed: no other station is in reach. Call your dispatcher.")
        mile = self._words.mile(way_out.mile)
        if way_out.name is None:
            return say("If it is closed: drive on, the fuel reaches {mile}.", mile=mile)
        return say("If it is closed: {station}, {mile}.", station=shortened(way_out.name, longest), mile=mile)

    def price_change(self, change: ShownPriceChange, zone: ZoneInfo) -> str:
        return self._words.say(
            "Price before {moment}: {before}, then {after}.",
            moment=self.moment(change.at, zone),
            before=self._words.price_of_volume(change.before),
            after=self._words.price_of_volume(change.after),
        )

    def map(self, place: Point, map_link: str) -> str:
        return map_address(*place, map_link)

    def answer_key(self, trip: ShownTrip, plan_id: str, stop: int, kind: str) -> str:
        """The key of the next answer of a kind to a fuel stop, from a browser that makes none: a form that is sent
        twice is one answer."""
        made = f"{trip.link.id} {plan_id} {stop} {kind} {trip.answers}"
        return hashlib.sha256(made.encode()).hexdigest()[:32]

    def choice_kind(self, choice: ShownChoice) -> str:
        return self._words.say(_CHOICES[choice.kind])

    def choice_place(self, choice: ShownChoice, longest: int) -> str:
        """The first fuel stop of a choice, and what it has."""
        say = self._words.say
        if choice.name is None or choice.mile is None:
            return say("No fuel stop")
        parts = [shortened(choice.name, longest), self._words.mile(choice.mile)]
        if choice.parking_spaces:
            parts.append(say("parking for {count} trucks", count=choice.parking_spaces))
        if choice.showers:
            parts.append(say("showers: {count}", count=choice.showers))
        return ", ".join(parts)

    def extra_cost(self, choice: ShownChoice) -> str:
        """The extra cost of a choice, such as `+ $4.10`, which stays on one line."""
        sign = "-" if choice.extra_cents < 0 else "+"
        return f"{sign} {self._words.money(abs(choice.extra_cents) / 100)}".replace(" ", "\u00a0")

    def decided(self, choice: ShownChoice) -> str:
        """Why a choice cannot be taken now; empty for one that can."""
        text = _DECIDED.get(choice.status)
        return self._words.say(text) if text is not None else ""

    def choice_id(self, choice: ShownChoice) -> str:
        return shown_id("cho", choice.id)

    def answer(self, answer: ShownAnswer, zone: ZoneInfo) -> str:
        """The driver's newest answer to a fuel stop."""
        say, moment = self._words.say, self.moment(answer.at, zone)
        if answer.kind is AnswerKind.GOING:
            return say("You said {moment}: I go there.", moment=moment)
        if answer.kind is AnswerKind.FUELED or answer.reason is None:
            return say("You said {moment}: I fueled.", moment=moment)
        return say("You said {moment}: I can't. {reason}.", moment=moment, reason=say(_REASONS[answer.reason]))

    def cause(self, changes: PlanChanges) -> str:
        text = _CAUSES.get(changes.cause or "")
        return self._words.say(text) if text is not None else ""

    def window(self, stop: ShownStop, zone: ZoneInfo) -> str:
        say, start, end = self._words.say, stop.window_start, stop.window_end
        if start is not None and end is not None:
            return say("Appointment from {start} to {end}", start=self.moment(start, zone), end=self.moment(end, zone))
        if start is not None:
            return say("Appointment from {start}", start=self.moment(start, zone))
        return say("Appointment until {end}", end=self.moment(end, zone)) if end is not None else ""


def _version(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]

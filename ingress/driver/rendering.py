"""Renders the page of a driver's trip. Every value in it is escaped, so a pushed text is never markup."""

import base64
import hashlib
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from markupsafe import Markup

from domain.driver_page.shown_trip import PlanChanges, ShownChoice, ShownFuelStop, ShownTrip, ShownWayOut
from domain.ids import shown_id
from domain.languages.catalogues import is_checked
from domain.languages.tags import OWN_NAMES
from domain.languages.words import ENGLISH, Words, capitalized, purchase_in_words, text_to_say
from domain.lifecycle import AnswerKind, ChoiceKind, ChoiceStatus, RefusalReason
from domain.messages.message_text import OFF_ROAD_NOTICE_MILES, map_address, shortened

_HERE = Path(__file__).parent
STATIC = _HERE / "static"

STYLES = (_HERE / "templates" / "page.css").read_text(encoding="utf-8")
STYLES_HASH = base64.b64encode(hashlib.sha256(STYLES.encode()).digest()).decode()
"""The hash by which the content security policy knows the page's styles."""

LONGEST_TEXT = 80
"""Most characters of a name or an address on the page, so that one with 50 stops stays small."""

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

_HIDDEN = Markup(
    '<input type="hidden" name="key" value="{key}"><input type="hidden" name="plan" value="{plan}">'
    '<input type="hidden" name="stop" value="{stop}"><input type="hidden" name="kind" value="{kind}">'
)


class Rendering:
    """Makes the pages of one process."""

    def __init__(self) -> None:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # a process without the page does not load it

        templates = Environment(
            loader=PackageLoader("ingress.driver"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            auto_reload=False,
        )
        templates.filters["short"] = lambda text: shortened(text, LONGEST_TEXT)
        templates.globals |= {"styles": STYLES, "versions": {path.name: _version(path) for path in STATIC.iterdir()}}
        self._page = templates.get_template("page.html")
        self._nothing = templates.get_template("nothing.html")

    def page(self, trip: ShownTrip, words: Words = ENGLISH, *, fault: str = "") -> bytes:
        """The page of a trip. `fault` says why an answer could not be taken, in his language."""
        return self._page.render(trip=trip, say=words.say, it=_Told(trip, words), fault=fault).encode()

    def nothing(self, title: str, text: str, words: Words = ENGLISH) -> bytes:
        """A page that shows no trip. Title and text are texts to say."""
        return self._nothing.render(say=words.say, language=words.language, title=title, text=text).encode()


class _Told:
    """The values of a trip's page in a language."""

    def __init__(self, trip: ShownTrip, words: Words) -> None:
        self._trip = trip
        self._words = words
        self._zone = ZoneInfo(trip.time_zone)
        self.language = words.language
        self.plan_id = shown_id("pln", trip.plan.id) if trip.plan is not None else ""
        self.reasons = _REASONS
        self.is_metric = words.units.is_metric
        self.country = words.units.country
        self.takes_price = words.units.per_usd is not None
        self.own_names = OWN_NAMES
        self.is_checked = is_checked(words.language)

    def moment(self, at: datetime) -> str:
        try:
            return self._words.moment(at.astimezone(self._zone))
        except OverflowError:  # the first and the last day that there are
            return self._words.moment(at)

    def distance(self, miles: float) -> str:
        return self._words.distance(miles)

    def mile(self, miles: float) -> str:
        return self._words.mile(miles)

    def volume(self, gallons: float) -> str:
        return self._words.volume(gallons)

    def purchase(self, stop: ShownFuelStop) -> str:
        return capitalized(purchase_in_words(stop.gallons, stop.fill_to_percent, self._words))

    def price(self, stop: ShownFuelStop) -> str:
        price = self._words.price_of_volume(stop.price_per_gallon)
        text = text_to_say("{price} a gallon")
        if self._words.units.is_metric:
            text = text_to_say("{price} a litre")
        return self._words.say(text, price=price)

    def money(self, dollars: float) -> str:
        return self._words.money(dollars)

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

    def town(self, stop: ShownFuelStop) -> str:
        if stop.town is None:
            return ""
        text = text_to_say("{distance} before {town}") if stop.town.is_ahead else text_to_say("{distance} after {town}")
        return self._words.say(text, distance=self._words.distance(stop.town.miles), town=stop.town.name)

    def way_out(self, way_out: ShownWayOut | None) -> str:
        say = self._words.say
        if way_out is None:
            return say("If it is closed: no other station is in reach. Call your dispatcher.")
        mile = self._words.mile(way_out.mile)
        if way_out.name is None:
            return say("If it is closed: drive on, the fuel reaches {mile}.", mile=mile)
        return say("If it is closed: {station}, {mile}.", station=way_out.name, mile=mile)

    def price_change(self, stop: ShownFuelStop) -> str:
        change = stop.price_change
        if change is None:
            return ""
        return self._words.say(
            "Price before {moment}: {before}, then {after}.",
            moment=self.moment(change.at),
            before=self._words.price_of_volume(change.before),
            after=self._words.price_of_volume(change.after),
        )

    def map(self, latitude: float, longitude: float) -> str:
        return map_address(latitude, longitude, self._trip.map_link)

    def hidden(self, stop: ShownFuelStop, kind: str) -> Markup:
        """The fields that say which fuel stop a form answers, and how."""
        return _HIDDEN.format(key=self._key(stop, kind), plan=self.plan_id, stop=stop.number, kind=kind)

    def _key(self, stop: ShownFuelStop, kind: str) -> str:
        """The key of the next answer of a kind to a fuel stop, from a browser that makes none: a form that is sent
        twice is one answer."""
        made = f"{self._trip.link.id} {self.plan_id} {stop.number} {kind} {self._trip.answers}"
        return hashlib.sha256(made.encode()).hexdigest()[:32]

    def choice_kind(self, choice: ShownChoice) -> str:
        return self._words.say(_CHOICES[choice.kind])

    def choice_place(self, choice: ShownChoice) -> str:
        """The first fuel stop of a choice, and what it has."""
        say = self._words.say
        if choice.name is None or choice.mile is None:
            return say("No fuel stop")
        parts = [shortened(choice.name, LONGEST_TEXT), self._words.mile(choice.mile)]
        if choice.parking_spaces:
            parts.append(say("parking for {count} trucks", count=choice.parking_spaces))
        if choice.showers:
            parts.append(say("showers: {count}", count=choice.showers))
        return ", ".join(parts)

    def extra_cost(self, choice: ShownChoice) -> str:
        """The extra cost of a choice, such as `+ $4.10`."""
        sign = "-" if choice.extra_cents < 0 else "+"
        return f"{sign} {self._words.money(abs(choice.extra_cents) / 100)}"

    def decided(self, choice: ShownChoice) -> str:
        """Why a choice cannot be taken now; empty for one that can."""
        text = _DECIDED.get(choice.status)
        return self._words.say(text) if text is not None else ""

    def choice_id(self, choice: ShownChoice) -> str:
        return shown_id("cho", choice.id)

    def answer(self, stop: ShownFuelStop) -> str:
        """The driver's newest answer to a fuel stop."""
        answer, say = stop.answer, self._words.say
        if answer is None:
            return ""
        moment = self.moment(answer.at)
        if answer.kind is AnswerKind.GOING:
            return say("You said {moment}: I go there.", moment=moment)
        if answer.kind is AnswerKind.FUELED or answer.reason is None:
            return say("You said {moment}: I fueled.", moment=moment)
        return say("You said {moment}: I can't. {reason}.", moment=moment, reason=say(_REASONS[answer.reason]))

    def cause(self, changes: PlanChanges) -> str:
        text = _CAUSES.get(changes.cause or "")
        return self._words.say(text) if text is not None else ""

    def window(self, start: datetime | None, end: datetime | None) -> str:
        say = self._words.say
        if start is not None and end is not None:
            return say("Appointment from {start} to {end}", start=self.moment(start), end=self.moment(end))
        if start is not None:
            return say("Appointment from {start}", start=self.moment(start))
        return say("Appointment until {end}", end=self.moment(end)) if end is not None else ""


def _version(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]

"""A driver's answer as his page sends it: the fields of a form, read and checked. Nothing here is believed of what only
the phone knows: the time and the place of an answer are kept where they can be true."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from domain.errors import FuelrouteError
from domain.ids import read_id
from domain.languages.units import LITRES_IN_GALLON, US_UNITS, Units
from domain.languages.words import text_to_say
from domain.lifecycle import AnswerKind, RefusalReason
from domain.roads import Point

MOST_GALLONS_TOLD = 1_000.0
PRICES_PER_GALLON = (0.5, 25.0)
"""Lowest and highest price of a gallon that a driver may have paid, in US dollars."""
FASTEST_CLOCK = timedelta(minutes=5)
"""A phone's clock may be ahead of ours by this much."""

_KEY = re.compile(r"[A-Za-z0-9_-]{8,64}")
_NUMBER = re.compile(r"\d{1,6}(?:[.,]\d{1,6})?|[.,]\d{1,6}")
_STOP = re.compile(r"\d{1,3}")

Choice = TypeVar("Choice", bound=StrEnum)


class ImpossibleAnswer(FuelrouteError):
    """An answer cannot be read, or cannot be one to this trip; the text, which a catalogue has, says why."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer to the fuel stop of that number, from 0, of a plan."""

    key: str
    """The key that the page made for the answer, with what the answer says: the same one is the same answer."""
    plan_id: UUID
    sequence: int
    kind: AnswerKind
    reason: RefusalReason | None = None
    gallons: float | None = None
    fill_percent: float | None = None
    price_per_gallon: float | None = None
    told_at: datetime | None = None
    """When he answered, by the phone's clock."""
    sent_at: datetime | None = None
    """When the phone sent the answer, by the same clock."""
    place: Point | None = None
    """The place of the phone."""


def read_given_answer(form: Mapping[str, str], units: Units = US_UNITS) -> GivenAnswer:
    """Reads the fields of the form: `key`, `plan`, `stop` and `kind`; `reason` of a refusal; `volume`, `percent` and
    `price` of a purchase, in the driver's units; `at`, `sent`, `latitude` and `longitude` of the phone.
    Raises ImpossibleAnswer."""
    kind = _choice(AnswerKind, form.get("kind", ""), text_to_say("Say whether you go there, have fueled, or cannot."))
    reason, gallons, percent, price = None, None, None, None
    if kind is AnswerKind.REFUSED:
        reason = _choice(RefusalReason, form.get("reason", ""), text_to_say("Choose why you cannot fuel there."))
    if kind is AnswerKind.FUELED:
        gallons, percent, price = _gallons(form, units), _percent(form), _price(form, units)
    return GivenAnswer(
        key=_key(form),
        plan_id=_plan(form.get("plan", "")),
        sequence=int(_matching(_STOP, form.get("stop", ""))),
        kind=kind,
        reason=reason,
        gallons=gallons,
        fill_percent=percent,
        price_per_gallon=price,
        told_at=_moment(form.get("at", "")),
        sent_at=_moment(form.get("sent", "")),
        place=_place(form.get("latitude", ""), form.get("longitude", "")),
    )


def believed_time(given: GivenAnswer, *, since: datetime, now: datetime) -> datetime | None:
    """The time of the answer, where it can be true: since the plan was made, and not in the future. A phone's clock may
    be wrong by hours, so the phone says, too, when it sent the answer: only the time between both counts."""
    told_at = given.told_at
    if told_at is not None and given.sent_at is not None and given.sent_at >= told_at:
        waited = given.sent_at - told_at
        return now - waited if waited <= now - since else None
    return told_at if told_at is not None and since <= told_at <= now + FASTEST_CLOCK else None


_UNREADABLE = text_to_say("This answer could not be read: load the page again.")


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not (pattern.fullmatch(text) and text.isascii()):
        raise ImpossibleAnswer(_UNREADABLE)
    return text


_SAYS = ("plan", "stop", "kind", "reason", "volume", "percent", "price")


def _key(form: Mapping[str, str]) -> str:
    """The key of the answer. A browser without scripts shows its form again after "back", with the same key in it: a
    form that was changed and sent again is another answer."""
    made = _matching(_KEY, form.get("key", ""))
    text = "\n".join([made, *(form.get(name, "") for name in _SAYS)])
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def _plan(text: str) -> UUID:
    plan_id = read_id("pln", text)
    if plan_id is None:
        raise ImpossibleAnswer(_UNREADABLE)
    return plan_id


def _choice(choices: type[Choice], text: str, otherwise: str) -> Choice:
    try:
        return choices(text)
    except ValueError:
        raise ImpossibleAnswer(otherwise) from None


def _gallons(form: Mapping[str, str], units: Units) -> float | None:
    volume = _number(form.get("volume", ""), text_to_say("How much fuel you bought is a number, such as 97.5."))
    gallons = volume / LITRES_IN_GALLON if volume is not None and units.is_metric else volume
    if gallons is not None and not 0 < gallons <= MOST_GALLONS_TOLD:
        raise ImpossibleAnswer(text_to_say("No truck takes that much fuel: check the number."))
    return gallons


def _percent(form: Mapping[str, str]) -> float | None:
    percent = _number(form.get("percent", ""), text_to_say("The level is a number of percent, such as 80."))
    if percent is not None and not 0 < percent <= 100:
        raise ImpossibleAnswer(text_to_say("The level is more than 0 and at most 100 percent: check the number."))
    return percent


def _price(form: Mapping[str, str], units: Units) -> float | None:
    """The price of a gallon in US dollars; None where no rate of exchange tells what the driver's money is worth."""
    price = _number(form.get("price", ""), text_to_say("The price is a number, such as 3.459."))
    if price is None or units.per_usd is None:
        return None
    per_gallon = (price * LITRES_IN_GALLON if units.is_metric else price) / units.per_usd
    lowest, highest = PRICES_PER_GALLON
    if not lowest <= per_gallon <= highest:
        raise ImpossibleAnswer(text_to_say("Diesel does not cost that: check the price."))
    return round(per_gallon, 6)


def _number(text: str, otherwise: str) -> float | None:
    """A number with a decimal point or comma; None for an empty field."""
    written = text.strip()
    if not written:
        return None
    if not (_NUMBER.fullmatch(written) and written.isascii()):
        raise ImpossibleAnswer(otherwise)
    return float(written.replace(",", "."))


def _moment(text: str) -> datetime | None:
    """The phone's time; None where it says none that can be read, for it counts for little."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _place(latitude: str, longitude: str) -> Point | None:
    """The phone's place; None where it says none."""
    try:
        place = Point(float(latitude), float(longitude))
    except ValueError:
        return None
    if not (math.isfinite(place.latitude) and math.isfinite(place.longitude)):
        return None
    return place if abs(place.latitude) <= 90 and abs(place.longitude) <= 180 else None

"""The rule that tells whether two rows of files are one purchase: another report of the card, a spreadsheet that lost
zeros, another spelling of the place, a day that was posted later.

Numbers decide first, then truck, day, state, fuel, gallons and amount. Rows that are neither clearly one purchase nor
clearly two are doubtful, and a person decides. Rows of one file are compared in `card_files.py`, by everything in
them."""

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.files.products import Fuel

SAME_GALLONS, SAME_CENTS = 0.1, 1
"""Largest difference between two reports of one purchase: they round gallons to a tenth and amounts to a cent."""
EXACT_GALLONS = 0.005
CLOCK_SLACK = timedelta(minutes=20)
"""Largest difference between the clocks of pump and card about one purchase."""
MOST_ZONES = timedelta(hours=5)
"""A report may use the time of the card's office, whole hours away."""
ZONE_SLACK = timedelta(minutes=3)


class Sameness(StrEnum):
    """The relation between two rows."""

    SAME = "same"
    CORRECTED = "corrected"
    """One transaction with other figures."""
    DOUBTFUL = "doubtful"
    DIFFERENT = "different"


class CardPurchase(NamedTuple):
    """The facts by which purchases are compared."""

    id: UUID
    profile: str
    key: str
    transaction_number: str | None
    invoice_number: str | None
    card_last_four: str | None
    unit_number: str | None
    vehicle_id: UUID | None
    station_id: str | None
    route_id: UUID | None
    city: str | None
    state: str | None
    fuel: str
    gallons: float
    paid_cents: int
    currency: str
    bought_at: datetime
    time_zone: str
    has_time: bool
    counter_id: UUID | None


class _Numbers(StrEnum):
    AGREE = "agree"
    DIFFER = "differ"
    UNKNOWN = "unknown"


class _Times(StrEnum):
    CLOSE = "close"
    SAME_DAY = "same day"
    NEXT_DAY = "next day"
    """One of them has no time: one has the day of the purchase, the other the day when it was posted."""
    APART = "apart"


def sameness(new: CardPurchase, stored: CardPurchase) -> Sameness:
    """The relation of a row of a file to a purchase of another file."""
    if (new.gallons < 0) != (stored.gallons < 0):
        return Sameness.DIFFERENT
    if new.fuel != stored.fuel and Fuel.UNKNOWN not in (new.fuel, stored.fuel):
        return Sameness.DIFFERENT
    times, numbers = _times(new, stored), _numbers(new, stored)
    if times is None or (numbers is not _Numbers.AGREE and _is_other_truck(new, stored)):
        return Sameness.DIFFERENT
    if (new.state, new.currency) != (stored.state, stored.currency):
        return _with_another_state_or_currency(new, stored, times, numbers)
    if abs(new.gallons - stored.gallons) > SAME_GALLONS + 1e-9:
        found = _with_other_gallons(new, stored, times, numbers)
    elif abs(new.paid_cents - stored.paid_cents) > SAME_CENTS:
        found = _with_another_amount(new, stored, times, numbers)
    else:
        found = _with_equal_figures(new, stored, times, numbers)
    return Sameness.DOUBTFUL if found is Sameness.SAME and new.fuel != stored.fuel else found


def _with_equal_figures(new: CardPurchase, stored: CardPurchase, times: _Times, numbers: _Numbers) -> Sameness:
    is_near = times in (_Times.CLOSE, _Times.SAME_DAY)
    if numbers is _Numbers.AGREE:
        # It may have been bought again after it was taken back.
        return Sameness.SAME if is_near or stored.counter_id is None else Sameness.DOUBTFUL
    if numbers is _Numbers.DIFFER:
        return Sameness.DOUBTFUL if is_near else Sameness.DIFFERENT
    if is_near:
        return Sameness.SAME if _is_known_truck(new, stored) and _is_one_place(new, stored) else Sameness.DOUBTFUL
    return Sameness.DIFFERENT if _is_one_report(new, stored) else Sameness.DOUBTFUL


def _with_another_state_or_currency(
    new: CardPurchase, stored: CardPurchase, times: _Times, numbers: _Numbers
) -> Sameness:
    """The relation if state or currency differ: one of two reports may have put the place into another state, or have
    the amount as billed."""
    is_near = times in (_Times.CLOSE, _Times.SAME_DAY) and _is_known_truck(new, stored)
    if not is_near or abs(new.gallons - stored.gallons) > SAME_GALLONS + 1e-9:
        return Sameness.DIFFERENT
    if new.state != stored.state:
        is_equal = new.currency == stored.currency and abs(new.paid_cents - stored.paid_cents) <= SAME_CENTS
        return Sameness.DOUBTFUL if numbers is _Numbers.AGREE and is_equal else Sameness.DIFFERENT
    is_one = numbers is not _Numbers.DIFFER and _is_one_place(new, stored)
    return Sameness.DOUBTFUL if is_one else Sameness.DIFFERENT


def _with_another_amount(new: CardPurchase, stored: CardPurchase, times: _Times, numbers: _Numbers) -> Sameness:
    """The relation if the amounts differ: a report may have the amount before the discount."""
    if numbers is _Numbers.AGREE and stored.counter_id is None:
        return Sameness.DOUBTFUL if times is _Times.NEXT_DAY else Sameness.SAME
    is_near = times in (_Times.CLOSE, _Times.SAME_DAY) and _is_one_place(new, stored)
    is_exact = abs(new.gallons - stored.gallons) <= EXACT_GALLONS
    unclear = numbers is _Numbers.UNKNOWN and is_near and is_exact
    return Sameness.DOUBTFUL if unclear else Sameness.DIFFERENT


def _with_other_gallons(new: CardPurchase, stored: CardPurchase, times: _Times, numbers: _Numbers) -> Sameness:
    is_near = times in (_Times.CLOSE, _Times.SAME_DAY) and _is_one_place(new, stored)
    is_open = stored.counter_id is None and new.gallons > 0
    if numbers is not _Numbers.AGREE or not is_near or not is_open or _is_other_truck(new, stored):
        return Sameness.DIFFERENT
    return Sameness.CORRECTED if new.profile == stored.profile else Sameness.DOUBTFUL


# --- Numbers -----------------------------------------------------------------------------------------------------


def plain_number(text: str | None) -> str:
    """The number without the parts that a spreadsheet loses: signs and leading zeros. Empty if there is none."""
    if text is None:
        return ""
    if text.isdecimal() and text.isascii():  # most numbers
        return text.lstrip("0")
    if re.fullmatch(r"\d(?:\.\d+)?E\+?\d+", text, re.IGNORECASE):
        return ""
    return re.sub(r"[^A-Z0-9]", "", text.upper()).lstrip("0")


def numbers_of(transaction_number: str | None, invoice_number: str | None) -> frozenset[str]:
    """The numbers by which another row may name this transaction."""
    return frozenset((plain_number(transaction_number), plain_number(invoice_number))) - {""}


def share_a_number(new: CardPurchase, stored: CardPurchase) -> bool:
    return _numbers(new, stored) is _Numbers.AGREE


def _numbers(new: CardPurchase, stored: CardPurchase) -> _Numbers:
    ours, theirs = _id_and_receipt(new), _id_and_receipt(stored)
    is_shared = bool(set(ours) & set(theirs) - {""})
    contradict = (
        bool(ours[0] and theirs[0] and ours[0] != theirs[0] and new.profile == stored.profile),
        bool(ours[1] and theirs[1] and ours[1] != theirs[1]),
    )
    if is_shared:
        return _Numbers.UNKNOWN if any(contradict) else _Numbers.AGREE
    return _Numbers.DIFFER if any(contradict) else _Numbers.UNKNOWN


def _id_and_receipt(one: CardPurchase) -> tuple[str, str]:
    """The card's own number and the receipt's. A file may have the receipt's in both places."""
    number, receipt = plain_number(one.transaction_number), plain_number(one.invoice_number)
    return ("" if number == receipt else number), receipt


# --- Truck, time and place ---------------------------------------------------------------------------------------


def _is_known_truck(new: CardPurchase, stored: CardPurchase) -> bool:
    """True if the truck, its written number, or the card is equal."""
    return (
        (new.vehicle_id is not None and new.vehicle_id == stored.vehicle_id)
        or bool(plain_number(new.unit_number)) & (plain_number(new.unit_number) == plain_number(stored.unit_number))
        or (new.card_last_four is not None and new.card_last_four == stored.card_last_four)
    )


def _is_other_truck(new: CardPurchase, stored: CardPurchase) -> bool:
    return None not in (new.vehicle_id, stored.vehicle_id) and new.vehicle_id != stored.vehicle_id


def may_be_corrected(new: CardPurchase, stored: CardPurchase) -> bool:
    """True if other figures under the number of a stored purchase correct it. A statement has one number for many
    purchases, so those of another truck, or of another time of the day, may be of another purchase."""
    ours, theirs = plain_number(new.unit_number), plain_number(stored.unit_number)
    is_other_truck = _is_other_truck(new, stored) or ("" not in (ours, theirs) and ours != theirs)
    return not is_other_truck and _times(new, stored) is not _Times.APART


def _is_one_report(new: CardPurchase, stored: CardPurchase) -> bool:
    """True if both come from one kind of file, without numbers, so that one purchase would have equal days and
    times."""
    return new.profile == stored.profile and not (
        numbers_of(new.transaction_number, new.invoice_number)
        | numbers_of(stored.transaction_number, stored.invoice_number)
    )


def _is_one_place(new: CardPurchase, stored: CardPurchase) -> bool:
    if new.station_id is not None and new.station_id == stored.station_id:
        return True
    ours, theirs = _town(new.city), _town(stored.city)
    return not ours or not theirs or ours == theirs


def _town(city: str | None) -> str:
    letters = re.sub(r"[^A-Z]", "", (city or "").upper())
    for long, short in (("SAINT", "ST"), ("FORT", "FT"), ("MOUNT", "MT")):
        letters = short + letters.removeprefix(long) if letters.startswith(long) else letters
    return letters


def _times(new: CardPurchase, stored: CardPurchase) -> _Times | None:
    """The relation of their times; None if they are more than a day apart."""
    if new.has_time and stored.has_time:
        apart = abs(new.bought_at - stored.bought_at)
        beyond_hours = apart % timedelta(hours=1)
        by_zone = apart <= MOST_ZONES and min(beyond_hours, timedelta(hours=1) - beyond_hours) <= ZONE_SLACK
        by_zone = by_zone and not _is_one_report(new, stored)
        if apart <= CLOCK_SLACK or by_zone:
            return _Times.CLOSE
        return _Times.APART if apart <= timedelta(hours=36) else None
    days = abs((_local_day(new) - _local_day(stored)).days)
    return (_Times.SAME_DAY, _Times.NEXT_DAY)[days] if days <= 1 else None


def _local_day(one: CardPurchase) -> datetime:
    local = one.bought_at.astimezone(ZoneInfo(one.time_zone))
    return datetime(local.year, local.month, local.day)

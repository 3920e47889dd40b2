"""The price of a station when a truck arrives there. Each change that is stored by now counts from its moment on: a
quote, a retail price to come, a deal or a tax that begins or ends with a day of the company.

A price's age counts as of now: a price that is fresh today is the best that is known of tomorrow, too."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from domain.languages.words import ENGLISH, Words, text_to_say
from domain.stations.prices import Deal, PriceParts

NEAR_CHANGE = timedelta(hours=1)
"""A truck may come this much later than planned: it counts on a higher price that begins by then."""

LATEST_START = timedelta(hours=12)
"""A truck may leave this much later than planned: a higher price that begins by then is noted."""

FURTHEST_CHANGE = timedelta(days=60)
"""Later changes are not looked for: no price is known so early."""

_ONE_DAY = timedelta(days=1)


class DatedPrice(NamedTuple):
    """A retail price or a quote that holds from a moment on, until the next one. None: there is none."""

    since: datetime
    price: float | None


class DatedDeal(NamedTuple):
    """A deal with its first and last day in the company's time zone; None for no such limit."""

    deal: Deal
    first_day: date | None = None
    last_day: date | None = None

    def holds_on(self, day: date) -> bool:
        return (self.first_day is None or self.first_day <= day) and (self.last_day is None or self.last_day >= day)


class DatedTax(NamedTuple):
    """A state's tax from a day on; a rate of None is not known."""

    first_day: date
    rate_per_gallon: float | None


class PriceStep(NamedTuple):
    """The net price at a station from a moment on, until the next step; None where it has none."""

    since: datetime
    net_price: float | None
    tax_per_gallon: float | None


class PriceChange(NamedTuple):
    """A change of a net price. `at` is in the company's time zone."""

    at: datetime
    before: float
    after: float

    def in_words(self, words: Words = ENGLISH) -> str:
        """The change for people, such as `before midnight on Fri: $3.499, then $3.699`."""
        before, after = words.price_of_volume(self.before), words.price_of_volume(self.after)
        if self.at.time() == time():
            day = words.weekday(self.at - _ONE_DAY)
            return words.say("before midnight on {day}: {before}, then {after}", day=day, before=before, after=after)
        day, clock = words.weekday(self.at), words.clock(self.at)
        text = text_to_say("before {day} {clock}: {before}, then {after}")
        return words.say(text, day=day, clock=clock, before=before, after=after)


class StationPrices(NamedTuple):
    """Everything that decides the price at one station from now on. `retail` and `quotes` are in the order of time,
    `taxes` in the order of their days; the first retail price and the first tax are today's."""

    retail: Sequence[DatedPrice]
    quotes: Sequence[DatedPrice]
    deals: Sequence[DatedDeal]
    taxes: Sequence[DatedTax]

    def steps(self, *, zone: ZoneInfo, now: datetime, until: datetime) -> list[PriceStep]:
        """The prices from now until a moment. The first step is today's price."""
        moments = [now, *(one.since for one in (*self.retail, *self.quotes) if now < one.since <= until)]
        dated = [one for one in self.deals if one.first_day is not None or one.last_day is not None]
        by_day = bool(dated) or len(self.taxes) > 1
        if by_day:
            moments += (midnight for midnight in self._midnights(dated, zone, until) if now < midnight <= until)
            moments = sorted(set(moments))
        else:
            moments.sort()
        steps: list[PriceStep] = []
        for moment in moments:
            step = self._at(moment, moment.astimezone(zone).date() if by_day else date.min)
            if not steps or steps[-1][1:] != step[1:]:
                steps.append(step)
        return steps

    def _at(self, moment: datetime, day: date) -> PriceStep:
        tax = next((one.rate_per_gallon for one in reversed(self.taxes) if one.first_day <= day), None)
        return PriceStep(moment, self._parts(moment, day).net_price, tax)

    def parts_at(self, moment: datetime, zone: ZoneInfo) -> PriceParts:
        """The parts of the net price at a moment."""
        return self._parts(moment, moment.astimezone(zone).date())

    def _parts(self, moment: datetime, day: date) -> PriceParts:
        deals = [one.deal for one in self.deals if one.holds_on(day)]
        if self.quotes:
            deals.append(Deal(net_price=_newest(self.quotes, moment)))
        return PriceParts(_newest(self.retail, moment), deals)

    def _midnights(self, dated: Iterable[DatedDeal], zone: ZoneInfo, until: datetime) -> Iterable[datetime]:
        """The beginnings of the days on which a deal or a tax changes."""
        last_day = until.astimezone(zone).date()
        days = {one.first_day for one in self.taxes} | {one.first_day for one in dated if one.first_day}
        days |= {one.last_day + _ONE_DAY for one in dated if one.last_day and one.last_day < last_day}
        return (datetime.combine(day, time(), zone).astimezone(UTC) for day in days if date.min < day <= last_day)


def _newest(prices: Sequence[DatedPrice], moment: datetime) -> float | None:
    for one in reversed(prices):
        if one.since <= moment:
            return one.price
    return None


def price_on_arrival(steps: Sequence[PriceStep], arrival: datetime) -> PriceStep:
    """The price to plan with: the one on arrival, or a higher one that begins within an hour after it."""
    there = [one for one in steps if one.since <= arrival][-1:] or steps[:1]
    soon = (one for one in steps if arrival < one.since <= arrival + NEAR_CHANGE)
    return max([*there, *soon], key=lambda one: one.net_price or 0.0) if there[0].net_price is not None else there[0]


def change_before(steps: Sequence[PriceStep], arrival: datetime, zone: ZoneInfo) -> PriceChange | None:
    """The last change of the net price up to an hour after the arrival; None where there was none since now."""
    for before, after in reversed([*pairwise(steps)]):
        if (
            after.since <= arrival + NEAR_CHANGE
            and before.net_price is not None
            and after.net_price is not None
            and before.net_price != after.net_price
        ):
            return PriceChange(after.since.astimezone(zone), before.net_price, after.net_price)
    return None


def next_rise(steps: Sequence[PriceStep], arrival: datetime) -> datetime | None:
    """When the price rises above the one to plan with; None where it is not known to rise."""
    planned = price_on_arrival(steps, arrival).net_price or 0.0
    later = (one for one in steps if one.since > arrival + NEAR_CHANGE)
    return next((one.since for one in later if (one.net_price or 0.0) > planned), None)

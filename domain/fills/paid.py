"""The amount paid for a fuel, by all columns of its row that say something about it.

A card's file has the price before and after the discount, the quantity, the amount before and after, and the discount.
The amount after it was paid. The other columns have to agree: an amount that none of them explains waits for a person,
since one of them is wrong, and the row does not show which."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from domain.fills.cells import decimal_of

_CENTS = Decimal("0.02")
"""Amounts are rounded to a cent, twice."""
_ZERO = Decimal(0)
CANADIAN_TAXES = ("gst", "pst", "hst", "qst")


class ToldFigures(NamedTuple):
    """The figures of one fuel in a row, discounts of either sign. A field is None if the file does not have it."""

    quantity: Decimal
    net_price: Decimal | None = None
    retail_price: Decimal | None = None
    net_amount: Decimal | None = None
    gross_amount: Decimal | None = None
    discount: Decimal | None = None
    fee: Decimal | None = None
    """A fee of the card. Some files have it in the amount."""
    taxes: Decimal | None = None
    """Taxes on top of the price, which the amount may include."""


class Paid(NamedTuple):
    amount: Decimal
    is_doubtful: bool
    """True if the columns contradict each other by more than rounding."""


class _Way(NamedTuple):
    """An amount that follows from other columns, with the rounded price and quantity in it."""

    amount: Decimal
    price: Decimal = _ZERO
    quantity: Decimal = _ZERO

    def agrees(self, amount: Decimal) -> bool:
        difference = abs(amount - self.amount)
        if difference <= _CENTS or not self.price:
            return difference <= _CENTS
        slack = abs(self.quantity) * _rounding(self.price, 2) + abs(self.price) * _rounding(self.quantity, 1)
        return difference <= slack + _CENTS


def told_in_row(given: Mapping[str, Any]) -> ToldFigures:
    """The figures of a row about one product. A tax that the card takes off counts as a discount."""
    amount, beside = decimal_of(given.get("amount")), decimal_of(given.get("non_fuel_amount"))
    return ToldFigures(
        decimal_of(given.get("quantity")) or _ZERO,
        decimal_of(given.get("price")),
        decimal_of(given.get("retail_price")),
        amount - beside if amount is not None and beside else amount,
        decimal_of(given.get("gross_amount")),
        _sum_of(given, ("discount", "rebate", "exempt_tax")),
        decimal_of(given.get("fee")),
        _sum_of(given, CANADIAN_TAXES),
    )


def _sum_of(given: Mapping[str, Any], names: Iterable[str]) -> Decimal | None:
    """The sum of some columns, without their signs; None if all are empty or zero."""
    found = None
    for name in names:
        if value := given.get(name):
            found = (found or _ZERO) + abs(Decimal(repr(value)))
    return found


def paid_for(told: ToldFigures) -> Paid | None:
    """The amount paid; None if the row has neither an amount nor a price."""
    by_price = _by_price(told.net_price, told.quantity)
    if by_price is not None and told.net_amount is not None and by_price.agrees(told.net_amount):  # most rows
        return Paid(told.net_amount, _contradicts(told))
    gross = _gross(told)
    ways = [way for way in (by_price, _less_discount(gross, told)) if way is not None]
    if told.net_amount is None:
        return _without_amount(told, gross, ways)
    known = ways or ([gross] if gross is not None else [])
    if any(way.agrees(told.net_amount) for way in known):
        return Paid(told.net_amount, _contradicts(told))
    without_fee = _less(told.net_amount, told.fee)
    for amount, price in (
        (told.net_amount, _less(told.net_amount, told.taxes)),
        (without_fee, without_fee),
    ):
        if any(way.agrees(price) for way in known):
            return Paid(amount, _contradicts(told))
    if len(ways) > 1 and gross is not None and gross.agrees(told.net_amount):
        first, second = ways
        return Paid(second.amount, not first.agrees(second.amount))  # the amount is that before the discount
    return Paid(told.net_amount, bool(known) and not _is_discounted(told))


def _is_discounted(told: ToldFigures) -> bool:
    """True if the row has the amount before an unknown discount, so that nothing contradicts the amount after it."""
    if told.gross_amount is None or told.net_amount is None or told.net_price or told.discount:
        return False
    gross, net = abs(told.gross_amount), abs(told.net_amount)
    return gross * _MOST_DISCOUNT <= net <= gross and not _contradicts(told)


_MOST_DISCOUNT = Decimal("0.5")
"""Least share of the amount that is left after a discount."""


def _less(amount: Decimal, part: Decimal | None) -> Decimal:
    """The amount reduced by a part, whatever the sign of either."""
    less = abs(part or _ZERO)
    return amount - less if amount >= 0 else amount + less


def _without_amount(told: ToldFigures, gross: _Way | None, ways: list[_Way]) -> Paid | None:
    if not ways:
        return Paid(gross.amount, _contradicts(told)) if gross is not None else None
    first, last = ways[0], ways[-1]
    return Paid(last.amount, not first.agrees(last.amount) if len(ways) > 1 else _may_be_of_a_gallon(told))


def _may_be_of_a_gallon(told: ToldFigures) -> bool:
    """True for a discount below the price of a gallon: without a price or an amount after it nothing shows whether it
    is of one gallon or of all."""
    if not told.discount or not told.retail_price:
        return False
    return abs(told.discount) < abs(told.retail_price) and abs(told.quantity) > 1


def _gross(told: ToldFigures) -> _Way | None:
    if told.gross_amount is not None:
        return _Way(told.gross_amount)
    return _by_price(told.retail_price, told.quantity)


def _contradicts(told: ToldFigures) -> bool:
    """True if the amount before the discount differs from its price times the quantity."""
    if told.gross_amount is None:
        return False
    by_price = _by_price(told.retail_price, told.quantity)
    return by_price is not None and not by_price.agrees(told.gross_amount)


def _by_price(price: Decimal | None, quantity: Decimal) -> _Way | None:
    return _Way(price * quantity, price, quantity) if price else None


def _less_discount(gross: _Way | None, told: ToldFigures) -> _Way | None:
    """The amount less the discount, which a file may write with either sign."""
    if gross is None or not told.discount:
        return None
    return gross._replace(amount=_less(gross.amount, told.discount))


def _rounding(number: Decimal, digits: int) -> Decimal:
    """Half of the last digit that the file writes, of at least `digits`: the reader of numbers drops zeros."""
    exponent = number.as_tuple().exponent
    written = -exponent if isinstance(exponent, int) else 0
    return Decimal(5).scaleb(-max(written, digits) - 1)

"""The fuels of a row about several at once: gallons and costs of tractor, reefer and other fuel side by side.

Comdata writes the rebate of the whole row, and the cost of each fuel before and after it. Its tractor gallons include
all but reefer fuel: number 1 and number 2 diesel, and other fuel, which is no diesel."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from domain.files.products import Fuel
from domain.fills.cells import RowFault, decimal_of
from domain.fills.paid import ToldFigures, paid_for, told_in_row

_CENTS, _GALLONS = Decimal("0.02"), Decimal("0.05")
"""Rounding of a sum of costs, and of a sum of gallons."""
_ZERO = Decimal(0)


class WideFuel(NamedTuple):
    """The columns of one fuel. Its fields' names begin with `name`."""

    name: str
    fuel: Fuel
    label: str


WIDE_FUELS = (
    WideFuel("tractor", Fuel.TRACTOR, "tractor fuel"),
    WideFuel("diesel_2", Fuel.TRACTOR, "number 2 diesel"),
    WideFuel("diesel_1", Fuel.TRACTOR, "number 1 diesel"),
    WideFuel("reefer", Fuel.REEFER, "reefer fuel"),
    WideFuel("reefer_2", Fuel.REEFER, "second reefer fuel"),
    WideFuel("def", Fuel.DEF, "DEF"),
    WideFuel("def_2", Fuel.DEF, "second DEF"),
    WideFuel("other_fuel", Fuel.OTHER, "other fuel"),
)


class WideFill(NamedTuple):
    """A fuel of the row. Sums of gallons or of costs that do not add up make it doubtful."""

    fuel: Fuel
    item: str
    told: ToldFigures
    is_quantity_doubtful: bool = False
    is_amount_doubtful: bool = False


def is_wide(given: Mapping[str, Any]) -> bool:
    """True for a row with gallons of several fuels, and none of its own or their sum; also for a row of such a file
    with neither gallons nor an amount, which is about no fuel. A zero is no gallons beside those of another fuel.
    Raises RowFault if it has gallons of its own and others, and nothing tells whether the first include them."""
    own = given.get("quantity")
    if _QUANTITIES.isdisjoint(given):
        return False
    others = {one.label: gallons for one in WIDE_FUELS if (gallons := given.get(f"{one.name}_quantity")) is not None}
    if own:
        bought = [label for label, gallons in others.items() if gallons]
        if bought and abs(own - float(sum(fill.told.quantity for fill in wide_fills(given)))) > float(_GALLONS):
            raise RowFault(
                f"it has a quantity of its own and one of {' and '.join(bought)}: if the first is without the others, "
                "map its column to tractor_quantity"
            )
        return len(bought) > 1
    if others:
        return own is None or any(others.values())
    return "quantity" not in given and not any(given.get(name) for name in _OWN_FIGURES)


_QUANTITIES = frozenset(f"{one.name}_quantity" for one in WIDE_FUELS)
_OWN_FIGURES = ("amount", "gross_amount", "price", "retail_price")


def wide_fills(given: Mapping[str, Any]) -> list[WideFill]:
    """The fuels that were bought, each with its figures."""
    told = {one.name: _figures_of(given, one.name) for one in WIDE_FUELS}
    tractor, is_doubtful = _tractor(told)
    fills = [WideFill(Fuel.TRACTOR, "tractor", tractor, is_doubtful)] + [
        WideFill(one.fuel, one.name, told[one.name]) for one in WIDE_FUELS[3:]
    ]
    bought = [fill for fill in fills if fill.told.quantity] or [
        fill
        for fill in fills
        if fill.told.gross_amount or fill.told.net_amount  # without gallons it is refused
    ]
    if len(bought) == 1 and paid_for(bought[0].told) is None:  # the row's own figures are of its only fuel
        return [bought[0]._replace(told=told_in_row(given)._replace(quantity=bought[0].told.quantity))]
    return _within(decimal_of(given.get("amount")), _with_rebate(bought, decimal_of(given.get("rebate"))))


def _within(total: Decimal | None, fills: list[WideFill]) -> list[WideFill]:
    """The fuels, doubtful if they cost more than was paid for the whole row: a discount has a column that is not
    read."""
    spent = sum((paid.amount for fill in fills if (paid := paid_for(fill.told)) is not None), _ZERO)
    if not total or abs(spent) <= abs(total) + _CENTS * len(fills):
        return fills
    return [fill._replace(is_amount_doubtful=True) for fill in fills]


def _figures_of(given: Mapping[str, Any], name: str) -> ToldFigures:
    gross, net = decimal_of(given.get(f"{name}_amount")), decimal_of(given.get(f"{name}_net_amount"))
    return ToldFigures(
        decimal_of(given.get(f"{name}_quantity")) or _ZERO,
        net_price=decimal_of(given.get(f"{name}_net_price")),
        retail_price=decimal_of(given.get(f"{name}_price")),
        net_amount=net or (None if gross else net),  # nothing paid for something that cost money is not told
        gross_amount=gross,
    )


def _tractor(told: Mapping[str, ToldFigures]) -> tuple[ToldFigures, bool]:
    """The diesel of the truck, and whether its parts do not add up."""
    whole, other = told["tractor"], told["other_fuel"]
    kinds = [told[name] for name in ("diesel_2", "diesel_1")]
    parts = [part for part in kinds if part.quantity]
    if not parts and not whole.quantity:
        parts = [part for part in kinds if part.gross_amount or part.net_amount]  # without gallons it is refused
    if not parts:
        return _less(whole, other) if _is_within(other, whole) else whole, False
    quantity = sum((part.quantity for part in parts), _ZERO)
    sums = (quantity, quantity + other.quantity)
    is_doubtful = bool(whole.quantity) and all(abs(whole.quantity - one) > _GALLONS for one in sums)
    if len(parts) == 1:
        return parts[0], is_doubtful
    return (
        ToldFigures(
            quantity,
            net_amount=_sum(part.net_amount for part in parts),
            gross_amount=_sum(part.gross_amount for part in parts),
        ),
        is_doubtful,
    )


def _is_within(other: ToldFigures, whole: ToldFigures) -> bool:
    """True if the other fuel is included in the whole."""
    cost, whole_cost = other.gross_amount, whole.gross_amount
    return bool(other.quantity) and other.quantity <= whole.quantity and (cost or _ZERO) <= (whole_cost or _ZERO)


def _less(whole: ToldFigures, other: ToldFigures) -> ToldFigures:
    gross = whole.gross_amount
    return ToldFigures(
        whole.quantity - other.quantity,
        gross_amount=gross - (other.gross_amount or _ZERO) if gross is not None else None,
    )


def _with_rebate(fills: list[WideFill], rebate: Decimal | None) -> list[WideFill]:
    """The fuels with their shares of the rebate, as far as the row has them."""
    if len(fills) == 1 and fills[0].told.net_amount is None:
        return [_discounted(fills[0], rebate)]
    if any(fill.told.net_amount is None or fill.told.gross_amount is None for fill in fills):
        return [fill._replace(is_amount_doubtful=bool(rebate)) for fill in fills]  # nothing tells whose rebate it is
    shares = [(fill.told.gross_amount or _ZERO) - (fill.told.net_amount or _ZERO) for fill in fills]
    adds_up = rebate is None or abs(abs(sum(shares, _ZERO)) - abs(rebate)) <= _CENTS * len(fills)
    return [
        (fill if fill.told.net_price else _discounted(fill, share))._replace(is_amount_doubtful=not adds_up)
        for fill, share in zip(fills, shares, strict=True)
    ]


def _discounted(fill: WideFill, discount: Decimal | None) -> WideFill:
    return fill._replace(told=fill.told._replace(discount=discount))


def _sum(numbers: Any) -> Decimal | None:
    """The sum; None if one is missing."""
    found = list(numbers)
    return sum(found, _ZERO) if all(one is not None for one in found) else None

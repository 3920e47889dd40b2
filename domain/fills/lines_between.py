"""Recognizes lines of a card's report that are no purchases: headings and titles of groups, subtotals, totals,
summaries.

A report is printed for people, with such lines between its rows. They are counted and reported, and need no correction.
A purchase with a fault in its row is never one of them."""

import re
from collections.abc import Mapping
from typing import Any

from domain.files.excel_days import excel_moment
from domain.fills.cells import RowFault, cell_line
from domain.fills.receipt_times import receipt_day
from domain.fills.row_places import state_code
from domain.fills.wide_rows import WIDE_FUELS

_TOTAL = re.compile(r"\b(?:(?:SUB|GRAND)[ -]?TOTALS?|TOTALS?)\b", re.IGNORECASE)
_NAMES = ("card", "transaction", "unit", "location", "city", "state", "item", "item_name")
_PLACES = ("location", "city", "address")
_QUANTITIES = ("quantity", *(f"{fuel.name}_quantity" for fuel in WIDE_FUELS))


def is_between_purchases(given: Mapping[str, Any]) -> bool:
    """True if the line has no day of a purchase, and too little else to be a purchase with a wrong day. `given` are the
    row's values by field; unreadable cells are there as texts."""
    if given.get("unit") and given.get("item") and given.get("state") and _has_day(given.get("date"), True):
        return False  # most rows
    there = {name for name in _NAMES if cell_line(given.get(name))}
    has_place = _has_state(given) or any(re.search(r"[^\W\d]", cell_line(given.get(name))) for name in _PLACES)
    if _has_day(given.get("date"), has_place):
        return not there
    if any(_TOTAL.search(cell_line(given.get(name))) for name in ("date", *there)):
        return True
    is_purchase = _has_quantity(given) and has_place and bool(there & {"card", "transaction", "unit"})
    return not is_purchase and not ("unit" in there and _has_state(given))


def _has_day(cell: Any, has_place: bool) -> bool:
    """True if the cell is a day. A number may be a day in Excel's count, or an amount of a summary."""
    if not has_place and excel_moment(cell_line(cell)) is not None:
        return False
    try:
        receipt_day(cell)
    except RowFault:
        return False
    return True


def _has_quantity(given: Mapping[str, Any]) -> bool:
    return any(re.search(r"\d", str(given.get(name) or "")) for name in _QUANTITIES)


def _has_state(given: Mapping[str, Any]) -> bool:
    return state_code(cell_line(given.get("state"))) is not None

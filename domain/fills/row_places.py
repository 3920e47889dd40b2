"""The place of a purchase in its row: name, town and state.

Some files have the state in a column, others after the town, and Pilot's after the store's number and town:
`747 Springville UT`."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from domain.fills.cells import RowFault, cell_line
from domain.fills.local_times import is_known_state
from domain.stations.state_names import plain_state

_COUNTRY = r"(?:US|USA|U\.S\.A\.|CA|CAN|CANADA|UNITED STATES)"
_POSTAL_CODE = r"(?:\d{5}(?:[- ]?\d{4})?|[A-Z]\d[A-Z][- ]?\d[A-Z]\d)"
_BEHIND = re.compile(
    rf"(?P<before>.*?\S)[\s,]+(?P<state>[A-Z]{{2}})\.?(?:[\s,]+{_POSTAL_CODE})?(?:[\s,]+{_COUNTRY})?",
    re.IGNORECASE,
)
_COMPANY = re.compile(
    r".*(?:&|\bAND) *[A-Z]{2}|.*\b(?:OIL|GAS|FUELS?|PETROLEUM|PETRO|ENERGY|PROPANE|SUPPLY|TRADING|DISTRIBUTING"
    r"|MARKETING|STORES?|TIRE|TRUCKING|BROS|SONS?)\.? +CO\.?",
    re.IGNORECASE,
)
"""Names with letters at their end that are no state: `WALLIS OIL CO`, `MA & PA`."""
_NUMBERED = re.compile(r".*\d[\s,:-]+(?P<town>\D+)")
"""A town after the number of a store, perhaps with the chain before it."""


class PurchasePlace(NamedTuple):
    name: str | None
    city: str | None
    state: str
    """Empty if the row has none."""


StateOf = Callable[[str, str], str | None]
"""Tells the state of a place by its name and town, either of them perhaps empty; None if it is not certain."""


def place_of(given: Mapping[str, Any], state_of: StateOf) -> PurchasePlace:
    """The place of the row. Raises RowFault if it has no state or province, on which the tax depends, and nothing else
    tells it."""
    place = _place(*map(given.get, ("location", "brand", "city", "state", "address")))
    if place.state:
        return place
    state = state_code(state_of(place.name or "", place.city or "") or "")
    if state is None:
        raise RowFault("the state is missing: it tells the tax")
    return place._replace(state=state)


@lru_cache(maxsize=10_000)  # a fleet buys at the same places again and again
def _place(
    location: str | None, brand: str | None, city: str | None, state: str | None, address: str | None
) -> PurchasePlace:
    location, city, written = cell_line(location), cell_line(city), cell_line(state)
    name = _with_brand(location, cell_line(brand)) or None
    if written:
        code = state_code(written)
        if code is None:
            raise RowFault(f"{written!r} is no state or province")
        return PurchasePlace(name, city or None, code)
    for text, is_town in ((city, True), (location, False), (cell_line(address), False)):
        before, code = _divided(text)
        if code is not None:
            return PurchasePlace(name, (before if is_town else city or _town_in(before)) or None, code)
    return PurchasePlace(name, city or None, "")


@lru_cache(maxsize=10_000)  # a file has the same few states in all its rows
def state_code(text: str) -> str | None:
    """The two letters of a state or province, from `UT`, `Utah` or `US-UT`; None if it is none."""
    code = plain_state(re.sub(r"^(?:US|CA)-", "", text.upper().strip(" .")))
    return code if is_known_state(code) else None


def _divided(text: str) -> tuple[str, str | None]:
    """The text before a state at its end, and the state."""
    found = None if _COMPANY.fullmatch(text) else _BEHIND.fullmatch(text)
    state = state_code(found["state"]) if found is not None else None
    return (found["before"].rstrip(" ,"), state) if found is not None and state is not None else (text, None)


def _town_in(text: str) -> str:
    """The town at the end of a place or address: `747 Springville`, `2085 Ocean Ave, Bakersfield`."""
    found = _NUMBERED.fullmatch(text.rpartition(",")[2] if "," in text else text)
    if found is None and "," in text:
        return text.rpartition(",")[2].strip()
    return found["town"].strip(" ,-") if found is not None else ""


def _with_brand(name: str, brand: str) -> str:
    """The name of the place, with its chain in front unless the name has it."""
    if not brand or re.sub(r"\W", "", brand).upper() in re.sub(r"\W", "", name).upper():
        return name
    return f"{brand} {name}".strip()

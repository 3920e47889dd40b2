"""The text of a message: what a driver reads. Every line of it is written here; names from outside cannot forge one."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from domain.ids import shown_id

_OPENING = "Fuel plan"
_OPENING_CORRECTED = "CORRECTED fuel plan"

_LONGEST_NAME = 200
_NOT_IN_A_LINE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]+"
)
"""Control characters, line ends, and marks of the writing direction."""


def compose(
    message_id: UUID,
    route_name: str,
    unit_number: str | None,
    stops: Sequence[Mapping[str, Any]],
    plan: Mapping[str, Any],
) -> str:
    """The message of a plan, with its fuel stops in driving order. `stops` and `plan` are documents of the API:

    Fuel plan for LOAD-7, truck 101
    To: Port Newark
    1. Lakeside Travel Plaza, 100 Exit Rd, Elkhart, IN: mile 130, 100.0 gal at $3.455 = $345.50
    2. Keystone Fuel: mile 546, 50.0 gal at $3.500 = $175.00
    2 fuel stops, 150.0 gal, $520.50
    Message msg_01k4...
    """
    truck = f", truck {one_line(unit_number)}" if unit_number else ""
    lines = [f"{_OPENING} for {one_line(route_name)}{truck}", f"To: {one_line(stops[-1]['name'])}"]
    for stop in plan["stops"]:
        where = f", {one_line(stop['address'])}" if stop["address"] else ""
        lines.append(
            f"{stop['sequence'] + 1}. {one_line(stop['name'])}{where}: mile {stop['milesFromOrigin']:.0f}, "
            f"{stop['gallonsToFill']:.1f} gal at ${stop['pricePerGallon']:.3f} = ${stop['totalCost']:.2f}"
        )
    if plan["stops"]:
        count = len(plan["stops"])
        lines.append(
            f"{count} fuel stop{'s' if count > 1 else ''}, {plan['totalGallons']:.1f} gal, ${plan['totalCost']:.2f}"
        )
    else:
        lines.append("No fuel stop is needed: the fuel on board is enough.")
    lines.append(f"Message {shown_id('msg', message_id)}")
    return "\n".join(lines)


def corrected(text: str) -> str:
    """The same text for a driver who has another plan for this load, or may have it. Twice changes nothing more."""
    return _OPENING_CORRECTED + text.removeprefix(_OPENING) if text.startswith(_OPENING) else text


def one_line(name: str) -> str:
    """A name from outside, safe inside a line of ours: it cannot end the line, and is cut after 200 characters."""
    line = _NOT_IN_A_LINE.sub(" ", name).strip()
    return line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1] + "\u2026"

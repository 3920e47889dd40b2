"""Magic values of the sandbox: fixed texts in a pushed route that ask for a status, a pending reason or an error.

`MAGIC_VALUES` lists all of them. With a live key they mean nothing. `domain/sandbox/README.md` describes their use."""

import re
from typing import Literal, NamedTuple

DEFAULT_SPEEDUP = 60
"""Simulated seconds in one second, where neither the route nor its company says."""
FASTEST_SPEEDUP = 3600
"""Most simulated seconds in one second."""

UNMAPPED = "SANDBOX-UNMAPPED"
"""A unit number or driver's name that matches nothing in the sandbox, even where a record has it."""

_NAME = "reference or externalId"


class MagicValue(NamedTuple):
    """A text that the sandbox knows, the field of a pushed route that may hold it, and its effect."""

    where: str
    value: str
    effect: str


MAGIC_VALUES = (
    MagicValue(
        _NAME,
        "SANDBOX-DRIVE",
        "A simulated truck drives the route at the company's speed, else at 60X: draft, planned, active, completed."
        " While it is active, a push or a cancel answers 409 route_active.",
    ),
    MagicValue(
        _NAME,
        "SANDBOX-DRIVE-300X",
        "The same at another speed, 1X to 3600X. Each of the next four values takes a speed in the same way.",
    ),
    MagicValue(
        _NAME,
        "SANDBOX-OFFROUTE",
        "Drives the route, and leaves the road for 25 miles on its first leg. Where the company replans on the way,"
        " the plan is made anew.",
    ),
    MagicValue(
        _NAME, "SANDBOX-LOWFUEL", "Drives the route, and starts below the reserve: the message begins with LOW FUEL."
    ),
    MagicValue(
        _NAME,
        "SANDBOX-EMPTY",
        "Drives the route, and starts with an empty tank: no station can be reached, the route ends in error.",
    ),
    MagicValue(
        _NAME,
        "SANDBOX-PLANNED",
        "Drives the route, and sends its message a minute late: the route is planned for so long.",
    ),
    MagicValue(
        _NAME,
        "SANDBOX-PENDING",
        "202, pending with the reason not_attempted; imported by the sweep some ten seconds later.",
    ),
    MagicValue(
        _NAME,
        "SANDBOX-FUTURE",
        "202, pending_window with the reason outside_import_window; imported by the next import pass, within five"
        " minutes.",
    ),
    MagicValue(
        _NAME,
        "SANDBOX-IMPORT-ERROR",
        "202, pending with the reason error, since its import fails; fails again some twenty seconds later, and the"
        " route ends in error.",
    ),
    MagicValue(
        "vehicle.unitNumber",
        UNMAPPED,
        "202, pending_mapping with the reason vehicle_unmapped; never matches, even where a vehicle has it.",
    ),
    MagicValue(
        "driver.name",
        UNMAPPED,
        "202, pending_mapping with the reason driver_unmapped; never matches, even where a driver has it.",
    ),
    MagicValue("externalId", "SANDBOX-HTTP-429", "429 rate_limited with Retry-After: 1; nothing is stored."),
    MagicValue("externalId", "SANDBOX-HTTP-500", "500 internal_error; nothing is stored."),
)
"""A value also counts at the beginning of a longer text, unless a letter, a digit or an underscore follows:
`SANDBOX-PENDING-17` is one, `SANDBOX-PENDING17` is not. `SANDBOX-UNMAPPED` is compared whole."""

_PREFIX = "SANDBOX-"
_ENDS_HERE = "(?![A-Za-z0-9_])"

DRIVEN = f"^SANDBOX-(DRIVE|OFFROUTE|LOWFUEL|EMPTY|PLANNED){_ENDS_HERE}"
"""Names of routes that are driven. Like the expressions below, both Python and PostgreSQL read it."""
DRAFT_TO_DRIVE = (
    "environment = 'sandbox' AND status = 'draft' AND arrived_at IS NULL"
    f" AND (reference ~ '{DRIVEN}' OR external_id ~ '{DRIVEN}')"
)
"""The condition of the index of drafts that ask a simulated truck to drive them."""
LATE_MESSAGE = f"^SANDBOX-PLANNED{_ENDS_HERE}"
_PENDING = re.compile(f"^SANDBOX-PENDING{_ENDS_HERE}")
_HTTP_ERROR = re.compile(f"^SANDBOX-HTTP-(429|500){_ENDS_HERE}")
_DRIVEN_AT = re.compile(rf"{DRIVEN}(?:-([0-9]{{1,9}})[Xx]{_ENDS_HERE})?")


def named(regex: str, route: str = "r") -> str:
    """The SQL condition that the reference or the externalId of a `route` fits one of the expressions above."""
    return f"({route}.reference ~ '{regex}' OR {route}.external_id ~ '{regex}')"


_IMPORT = f"^SANDBOX-(FUTURE|IMPORT-ERROR){_ENDS_HERE}"
MAGIC_IMPORT = f"""
    CASE WHEN r.environment = 'sandbox'
    THEN coalesce(substring(r.reference, '{_IMPORT}'), substring(r.external_id, '{_IMPORT}')) END AS magic"""
"""The import's outcome that a route `r` asks for, as a column: `FUTURE` or `IMPORT-ERROR`."""


MagicErrorCode = Literal["rate_limited", "internal_error"]


def magic_error_code(external_id: str) -> MagicErrorCode | None:
    """The error that a push to the sandbox asks for; None for nearly all pushes."""
    if not external_id.startswith(_PREFIX) or (found := _HTTP_ERROR.match(external_id)) is None:
        return None
    return "rate_limited" if found[1] == "429" else "internal_error"


def waits_for_sweep(reference: str | None, external_id: str) -> bool:
    """True if a push to the sandbox asks to be imported later, not at once."""
    return any(
        name is not None and name.startswith(_PREFIX) and _PENDING.match(name) is not None
        for name in (external_id, reference)
    )


class DriveWish(NamedTuple):
    """The drive that the names of a route ask for."""

    speedup: int | None
    """Simulated seconds in one second; None where the route names no speed."""
    leaves_road: bool
    is_low_on_fuel: bool
    is_empty: bool


def drive_wish(reference: str | None, external_id: str) -> DriveWish | None:
    """The drive for which a route's reference and externalId ask; None where they ask for none."""
    found = [match for name in (reference, external_id) if name and (match := _DRIVEN_AT.match(name))]
    if not found:
        return None
    speedups = [int(match[2]) for match in found if match[2]]
    kinds = {match[1] for match in found}
    return DriveWish(
        speedup=min(max(speedups[0], 1), FASTEST_SPEEDUP) if speedups else None,
        leaves_road="OFFROUTE" in kinds,
        is_low_on_fuel="LOWFUEL" in kinds,
        is_empty="EMPTY" in kinds,
    )

"""Companies: making them, changing their policy, locking and retiring them."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import available_timezones

import msgspec

from domain.accounts.contact_urls import fault_of
from domain.accounts.contacts import IN_CLEAR, Contacts, SealedColumn
from domain.accounts.policy import ANY_SHARE_PERCENT, AUTODRIVE_OFF, PlanPolicy, Policy, StoredCompany
from domain.audit.entries import Action, Actor, record_about, record_action
from domain.contract.captions import captioned_fields
from domain.contract.checking import plain_words
from domain.database.connections import Connection
from domain.database.fence import is_at_work, require_not_fenced
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.ids import new_id, shown_id
from domain.magic_values import FASTEST_SPEEDUP

_SPEEDUP = re.compile(r"([1-9][0-9]{0,3})x?", re.ASCII | re.IGNORECASE)


class UnknownCompany(FuelrouteError):
    def __init__(self, named: str) -> None:
        super().__init__(f"there is no company {named!r}: see `fuelroute companies list`")


class RetiredCompany(FuelrouteError):
    def __init__(self, company_id: UUID) -> None:
        super().__init__(f"the company {shown_id('cmp', company_id)!r} is retired: nothing can be added to it")


class UnusablePolicy(FuelrouteError):
    """A value cannot be set; the text names it."""


_INSERT = Command("INSERT INTO companies (id, name) VALUES (%s, %s)")

_PLAIN = [name for name in Policy.__struct_fields__ if name not in ("message_url", "max_stops")]
"""Columns that are never NULL: a parameter of NULL leaves them as they are."""

_SET_POLICY = Statement(
    StoredCompany,
    f"UPDATE companies SET {', '.join(f'{name} = coalesce(%({name})s, {name})' for name in _PLAIN)},"
    " message_url = CASE WHEN %(sets_message_url)s THEN %(message_url)s ELSE message_url END,"
    " max_stops = CASE WHEN %(lifts_max_stops)s THEN NULL ELSE coalesce(%(max_stops)s, max_stops) END"
    f" WHERE id = %(id)s RETURNING {', '.join(StoredCompany._fields)}",
)


def create_company(connection: Connection, policy: Policy, *, contacts: Contacts = IN_CLEAR) -> UUID:
    """Stores a new company. Returns its id. Raises UnusablePolicy, which names the value that cannot be set."""
    company_id = new_id()
    values = _checked(policy, contacts)
    _INSERT.execute(connection, (company_id, policy.name))
    _SET_POLICY.one(connection, {"id": company_id, **values, "lifts_max_stops": False})
    return company_id


def set_policy(
    connection: Connection,
    company_id: UUID,
    policy: Policy,
    by: Actor,
    *,
    lifts_max_stops: bool = False,
    contacts: Contacts = IN_CLEAR,
) -> StoredCompany:
    """Changes the values that are given; the audit log keeps their names. `lifts_max_stops` removes the limit of stops.
    Returns the company as it is now. Raises UnusablePolicy, which names the value; UnknownCompany and MovedCompany; and
    UnreadableContact for a message URL that was sealed with another key."""
    require_not_fenced(connection, company_id)
    values = {"id": company_id, **_checked(policy, contacts), "lifts_max_stops": lifts_max_stops}
    row = _SET_POLICY.first(connection, values)
    if row is None:
        raise UnknownCompany(shown_id("cmp", company_id))
    changed = [field.label for field in captioned_fields(Policy) if getattr(policy, field.name) is not None]
    changed += [field.label for field in captioned_fields(Policy, "max_stops") if lifts_max_stops]
    if changed:
        record_action(connection, by._replace(reason=", ".join(changed)), "change", "policy", company_id=company_id)
    return row._replace(message_url=contacts.open(row.message_url))


_READ = Statement(StoredCompany, f"SELECT {', '.join(StoredCompany._fields)} FROM companies WHERE id = %s")


def read_company(connection: Connection, company_id: UUID) -> StoredCompany:
    """The company, with its message URL still sealed. Raises UnknownCompany."""
    row = _READ.first(connection, (company_id,))
    if row is None:
        raise UnknownCompany(shown_id("cmp", company_id))
    return row


_PLAN_POLICY = Statement(PlanPolicy, f"SELECT {', '.join(PlanPolicy._fields)} FROM companies WHERE id = %s")


def read_plan_policy(connection: Connection, company_id: UUID) -> PlanPolicy:
    return _PLAN_POLICY.one(connection, (company_id,))


_IS_RETIRED = Scalar(NotNull[bool], "SELECT retired_at IS NOT NULL FROM companies WHERE id = %s")
_LOCK = Command("SELECT FROM companies WHERE id = %s FOR NO KEY UPDATE")


def require_company(
    connection: Connection, company_id: UUID, *, even_retired: bool = False, even_moved: bool = False
) -> None:
    """Check that the company exists and is at work here. Raises UnknownCompany otherwise, RetiredCompany unless
    `even_retired`, and MovedCompany unless `even_moved`; commands print them, and the console answers 404."""
    if not even_moved:
        require_not_fenced(connection, company_id)
    is_retired = _IS_RETIRED.first(connection, (company_id,))
    if is_retired is None:
        raise UnknownCompany(shown_id("cmp", company_id))
    if is_retired and not even_retired:
        raise RetiredCompany(company_id)


_ZONE = Scalar(str, "SELECT time_zone FROM companies WHERE id = %s")


def time_zone_of(connection: Connection, company_id: UUID) -> str:
    """The time zone of a company, retired or not. Raises UnknownCompany."""
    zone = _ZONE.first(connection, (company_id,))
    if zone is None:
        raise UnknownCompany(shown_id("cmp", company_id))
    return zone


def lock_company(
    connection: Connection, company_id: UUID, *, even_retired: bool = False, even_moved: bool = False
) -> None:
    """Locks the company's row. Each change of a fleet waits here for its turn, so two imports never make one vehicle
    twice. Raises UnknownCompany, RetiredCompany unless `even_retired`, and MovedCompany unless `even_moved`."""
    _LOCK.execute(connection, (company_id,))
    require_company(connection, company_id, even_retired=even_retired, even_moved=even_moved)


class _Named(NamedTuple):
    id: UUID
    name: str


_NAMES = Statement(_Named, "SELECT id, name FROM companies WHERE id = ANY(%s)")


def names_of(connection: Connection, company_ids: Iterable[UUID]) -> dict[UUID, str]:
    """The names of companies by id."""
    ids = list(set(company_ids))
    return {row.id: row.name for row in _NAMES.all(connection, (ids,))} if ids else {}


class ChangedFreeTime(NamedTuple):
    """A company whose policy has another free time at stops than the one by which detention was judged."""

    id: UUID
    judged_minutes: float | None
    """None for a company of which nothing was judged yet."""
    free_minutes: float


_NOTE_FREE_TIMES = Statement(
    ChangedFreeTime,
    f"""
    UPDATE companies c SET detention_judged_minutes = c.detention_free_minutes
    FROM (SELECT id, detention_judged_minutes AS minutes FROM companies
          WHERE detention_judged_minutes IS DISTINCT FROM detention_free_minutes AND {is_at_work("id")}
          ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) AS before
    WHERE c.id = before.id
    RETURNING c.id, before.minutes AS judged_minutes, c.detention_free_minutes AS free_minutes
    """,
)


def note_free_times(connection: Connection) -> list[ChangedFreeTime]:
    """Stores that detention is judged by the policies as they are now. Returns what was judged otherwise before."""
    return _NOTE_FREE_TIMES.all(connection)


_IN_FLIGHT = timedelta(hours=1)
"""Time after which requests and jobs under way when a company was retired have ended."""


_RETIRE = Command("UPDATE companies SET retired_at = coalesce(retired_at, %s) WHERE id = %s")
_RETIRED_SINCE = Scalar(UUID, "SELECT id FROM companies WHERE retired_at > %s")


def retire_company(connection: Connection, company_id: UUID, by: Actor, *, now: datetime) -> None:
    """Retires a company: from the commit on its keys are refused and none of its routes is imported. The caller closes
    its routes. A second call keeps the first time. Raises UnknownCompany."""
    if _RETIRE.execute(connection, (now, company_id)).rowcount == 0:
        raise UnknownCompany(shown_id("cmp", company_id))
    record_about(connection, by, Action("companies.retire"), "cmp", company_id, company_id=company_id)


def lately_retired_companies(connection: Connection, *, now: datetime) -> list[UUID]:
    """Retired companies that a request in flight may have given a route after their routes were closed."""
    return _RETIRED_SINCE.all(connection, (now - _IN_FLIGHT,))


_SHARES_BY_MARGIN = ((5.0, 20.0), (10.0, 10.0))
_LEAST_SHARE_BY_MARGIN = 5.0
"""The shares of trips that may fall below the reserve for margins below these, and for larger ones. A truck burns half
a tank until its first purchase; a margin of 5 % then covers a mileage that is 10 % short, which one trip in five is.
The migration `trips_below_reserve` has the same."""

MESSAGE_URLS = SealedColumn("companies", "message_url", company="id")


def _checked(policy: Policy, contacts: Contacts) -> dict[str, Any]:
    """The parameters of `_SET_POLICY`. Raises UnusablePolicy, which names the value that cannot be set."""
    values: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(policy).items() if value is not None
    }
    try:
        msgspec.convert(values, Policy)
    except msgspec.ValidationError as error:
        raise UnusablePolicy(plain_words(str(error)).replace("`$.", "`")) from None
    values = _shares_by_margin(values)
    if "time_zone" in values and values["time_zone"] not in available_timezones():
        raise UnusablePolicy(f"no such time zone: {values['time_zone']!r}; use a name such as America/Chicago")
    if "sandbox_autodrive" in values:
        values["sandbox_autodrive"] = _autodrive(values["sandbox_autodrive"])
    if values.get("message_url") == "":  # back to the local outbox
        values["message_url"] = None
    elif "message_url" in values and (fault := fault_of(values["message_url"], in_cab=True)) is not None:
        raise UnusablePolicy(f"the message URL {fault}")
    if "message_url" in values:
        values["message_url"] = contacts.seal(values["message_url"])
    nothing = dict.fromkeys(Policy.__struct_fields__)
    return {**nothing, **values, "sets_message_url": "message_url" in values}


def _shares_by_margin(values: dict[str, Any]) -> dict[str, Any]:
    """The values with the share of trips that has taken the place of the margin, where only the margin is given. A
    share that is given ends the margin."""
    if "trips_below_reserve_percent" in values:
        return {"fuel_margin_percent": 0.0, **values}
    if "fuel_margin_percent" not in values:
        return values
    margin = values["fuel_margin_percent"]
    share = next((share for below, share in _SHARES_BY_MARGIN if margin < below), _LEAST_SHARE_BY_MARGIN)
    return {**values, "trips_below_reserve_percent": share if margin else ANY_SHARE_PERCENT}


def _autodrive(text: str) -> str:
    """The setting as it is stored: `off`, or a speed such as `60x`. Raises UnusablePolicy for any other text."""
    if text.strip().lower() == AUTODRIVE_OFF:
        return AUTODRIVE_OFF
    given = _SPEEDUP.fullmatch(text.strip())
    if given is None or int(given[1]) > FASTEST_SPEEDUP:
        raise UnusablePolicy(
            f"the speed of simulated trucks is off, or from 1x to {FASTEST_SPEEDUP}x such as 60x, not {text[:20]!r}"
        )
    return f"{given[1]}x"

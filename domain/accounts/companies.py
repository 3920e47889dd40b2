"""Companies: tenants with an import and planning policy."""

from datetime import datetime, timedelta
from typing import Annotated, Any
from zoneinfo import available_timezones

import msgspec
from msgspec import Meta, Struct
from psycopg import sql

from domain.accounts.contacts import IN_CLEAR, Contacts, fault_of
from domain.database import Connection
from domain.errors import FuelrouteError
from domain.ids import new_id
from domain.planning.prices import Objective
from domain.routes.pushes import end_routes, unfinished_routes

Percent = Annotated[float, Meta(ge=0, le=100)]


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be set of a company; None leaves it as it is. The defaults are the table's."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    time_zone: str | None = None
    import_window_days: Annotated[float, Meta(ge=0, le=3660)] | None = None
    superseding: bool | None = None
    reserve_percent: Percent | None = None
    end_fuel_percent: Percent | None = None
    assumed_fuel_percent: Percent | None = None
    min_purchase_gallons: Annotated[float, Meta(ge=0, le=1000)] | None = None
    stop_cost: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    max_detour_miles: Annotated[float, Meta(ge=0, le=100)] | None = None
    max_stops: Annotated[int, Meta(ge=0, le=100)] | None = None
    objective: Objective | None = None
    leftover_value_per_gallon: Annotated[float, Meta(ge=0, lt=100)] | None = None
    message_url: str | None = None


class UnknownCompany(FuelrouteError):
    def __init__(self, company_id: str) -> None:
        super().__init__(f"there is no company {company_id!r}")


class RetiredCompany(FuelrouteError):
    def __init__(self, company_id: str) -> None:
        super().__init__(f"the company {company_id!r} is retired: nothing can be added to it")


class UnusablePolicy(FuelrouteError):
    """A value that cannot be set; the text names it."""


def create_company(connection: Connection, policy: Policy, *, contacts: Contacts = IN_CLEAR) -> str:
    """Stores a new company. Returns its id. Raises UnusablePolicy."""
    company_id = new_id("cmp")
    values = _checked(policy, contacts)
    connection.execute(
        sql.SQL("INSERT INTO companies ({columns}) VALUES ({values})").format(
            columns=sql.SQL(", ").join(map(sql.Identifier, ["id", *values])),
            values=sql.SQL(", ").join(map(sql.Placeholder, ["id", *values])),
        ),
        {"id": company_id, **values},
    )
    return company_id


def set_policy(connection: Connection, company_id: str, policy: Policy, *, contacts: Contacts = IN_CLEAR) -> Any:
    """Changes what is given. Returns the company as it is now. Raises UnknownCompany, UnusablePolicy, and
    UnreadableContact for a message URL that was sealed with another key."""
    values = _checked(policy, contacts)
    assignments: list[sql.Composable] = [
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in values
    ] or [sql.SQL("id = id")]
    row = connection.execute(
        sql.SQL("UPDATE companies SET {} WHERE id = %(id)s RETURNING *").format(sql.SQL(", ").join(assignments)),
        {"id": company_id, **values},
    ).fetchone()
    if row is None:
        raise UnknownCompany(company_id)
    return row._replace(message_url=contacts.open(row.message_url))


def require_company(connection: Connection, company_id: str, *, even_retired: bool = False) -> None:
    """Raises UnknownCompany, and RetiredCompany unless `even_retired`."""
    row = connection.execute("SELECT retired_at FROM companies WHERE id = %s", (company_id,)).fetchone()
    if row is None:
        raise UnknownCompany(company_id)
    if row.retired_at is not None and not even_retired:
        raise RetiredCompany(company_id)


def lock_company(connection: Connection, company_id: str, *, even_retired: bool = False) -> None:
    """Whatever changes a company's fleet waits here for its turn, so that two imports never make a vehicle twice.

    Raises UnknownCompany, and RetiredCompany unless `even_retired`.
    """
    connection.execute("SELECT FROM companies WHERE id = %s FOR NO KEY UPDATE", (company_id,))
    require_company(connection, company_id, even_retired=even_retired)


_PORTION = 1_000
"""Routes closed in one transaction."""

_IN_FLIGHT = timedelta(hours=1)
"""What was under way when a record was retired has ended by then."""


def retire_company(connection: Connection, company_id: str, *, now: datetime) -> None:
    """From the commit on its keys are refused and nothing of it is imported. Its routes are still to be closed.

    Raises UnknownCompany. Retiring twice keeps the first time.
    """
    retired = connection.execute(
        "UPDATE companies SET retired_at = coalesce(retired_at, %s) WHERE id = %s", (now, company_id)
    )
    if retired.rowcount == 0:
        raise UnknownCompany(company_id)


def close_routes(connection: Connection, company_id: str, *, wait: bool = True) -> int:
    """A portion of a retired company's routes. Returns how many; 0: all are closed, but for those that somebody else
    has locked unless told to `wait` for them."""
    ids = unfinished_routes(connection, company_id, limit=_PORTION, wait=wait)
    end_routes(connection, ids, "The company was retired")
    return len(ids)


def lately_retired(connection: Connection, *, now: datetime) -> list[str]:
    """Companies that a request in flight may have given a route after their routes were closed."""
    rows = connection.execute("SELECT id FROM companies WHERE retired_at > %s", (now - _IN_FLIGHT,)).fetchall()
    return [row.id for row in rows]


def _checked(policy: Policy, contacts: Contacts) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(policy).items() if value is not None
    }
    try:
        msgspec.convert(values, Policy)
    except msgspec.ValidationError as error:
        raise UnusablePolicy(str(error).replace("`$.", "`")) from None
    if "time_zone" in values and values["time_zone"] not in available_timezones():
        raise UnusablePolicy(f"no such time zone: {values['time_zone']!r}; use a name such as America/Chicago")
    if values.get("message_url") == "":  # back to the local outbox
        values["message_url"] = None
    elif "message_url" in values and (fault := fault_of(values["message_url"])) is not None:
        raise UnusablePolicy(f"the message URL {fault}")
    if "message_url" in values:
        values["message_url"] = contacts.seal(values["message_url"])
    return values

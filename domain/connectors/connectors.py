"""Connectors of companies: add, list, change, pause, resume, remove; their credentials.

Owners bring the addresses, so they are treated as hostile by the rule in `accounts/allowed_hosts.py`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from domain.accounts.allowed_hosts import AllowedHosts, url_fault
from domain.accounts.companies import lock_company
from domain.accounts.contacts import Contacts, SealedColumn, UnreadableContact
from domain.audit.entries import Action, Actor, record_about
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Access, FieldName, Vendor, VendorFault
from domain.database.connections import Connection, Tenant
from domain.database.owned import Owned
from domain.database.statements import Command, Statement
from domain.encoding import write
from domain.errors import FuelrouteError, Unknown
from domain.ids import new_id, shown_id

MOST_CONNECTORS = 20
"""Most connectors of a company in one environment."""

ALLOWED_HOSTS_SETTING = "FUELROUTE_CONNECTOR_ALLOWED_HOSTS"

_LONGEST_NAME = 100
_LONGEST_VALUE = 20_000


class UnusableConnector(FuelrouteError):
    """A value cannot be set; the text names it."""


class UnknownConnector(Unknown):
    def __init__(self, named: str) -> None:
        super().__init__(f"there is no connector {named!r}: see `fuelroute connectors list`")


class Connector(NamedTuple):
    """A connector as people see it, without its credentials."""

    id: UUID
    company_id: UUID
    environment: str
    kind: str
    name: str
    url: str
    asks: bool
    created_at: datetime
    paused_at: datetime | None
    leased_by: str | None
    leased_until: datetime | None
    due_at: datetime | None
    answered_at: datetime | None
    newest_at: datetime | None
    failures: int
    failing_since: datetime | None
    last_error: str | None
    what_to_do: str | None
    fixes: int
    left_out: dict[str, int]
    remark: str | None
    """The last thing that people should know and that is no fault; None without one."""
    remarked_at: datetime | None


class ConnectorValues(NamedTuple):
    """The values of a new connector."""

    kind: str
    credentials: Mapping[FieldName, str]
    name: str = ""
    """The name; empty for the vendor's name."""
    url: str = ""
    """The address; empty for the vendor's own cloud."""


CONNECTORS = Owned(
    Connector,
    "connectors",
    kind="con",
    unknown=UnknownConnector,
    order="environment, id",
    counted_by=("company_id", "environment"),
)
"""The connectors of companies, in both environments. They are locked before their vehicles, and both before tracks."""

_INSERT = Statement(
    Connector,
    "INSERT INTO connectors (id, company_id, environment, kind, name, url, credentials, asks, left_out)"
    f" VALUES (%s, %s, %s, %s, %s, %s, %s, %s, '{{}}') RETURNING {CONNECTORS.columns}",
)


def vendor_of(kind: str) -> type[Vendor]:
    """The class of a vendor. Raises UnusableConnector, which lists the kinds, if there is none."""
    vendor = VENDORS.get(kind)
    if vendor is None:
        raise UnusableConnector(f"there is no kind {kind!r}: use one of {', '.join(VENDORS)}")
    return vendor


def add_connector(
    connection: Connection,
    tenant: Tenant,
    values: ConnectorValues,
    by: Actor,
    *,
    allowed: AllowedHosts,
    contacts: Contacts,
) -> Connector:
    """Stores a new connector, which works at once. Raises UnusableConnector, which names the value that cannot be set,
    UnknownCompany, RetiredCompany."""
    vendor = vendor_of(values.kind)
    url = checked_url(vendor, values.url, allowed)
    credentials = checked_credentials(vendor, values.credentials)
    name = values.name.strip() or vendor.title
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise UnusableConnector(f"the name is one line of at most {_LONGEST_NAME} characters")
    lock_company(connection, tenant.company_id)
    full = UnusableConnector(f"the company has {MOST_CONNECTORS} connectors in {tenant.environment}: remove one first")
    CONNECTORS.require_room(connection, tenant, MOST_CONNECTORS, full)
    sealed = contacts.seal(write(credentials).decode())
    asks = vendor().asks(credentials)
    made = _INSERT.one(connection, (new_id(), *tenant, values.kind, name, url, sealed, asks))
    record_about(connection, by, Action("connectors.add"), "con", made.id, company_id=made.company_id)
    return made


def record_test(connection: Connection, connector: Connector, by: Actor, *, fault: VendorFault | None) -> None:
    """Writes to the audit log that a person had a vendor asked, also where it failed."""
    why = by if fault is None else by.with_reason(f"it failed: {fault}")
    record_about(connection, why, Action("connectors.test"), "con", connector.id, company_id=connector.company_id)


def state_of(connector: Connector, *, now: datetime) -> str:
    """The state in a few words: `paused`, `failing`, `waiting` for a process, or its present work."""
    if connector.paused_at is not None:
        return "paused"
    if connector.failing_since is not None:
        return "failing"
    if not connector.asks:
        if connector.answered_at is None:
            return "waits for its vendor"
        return "silent" if hears_nothing(connector, now=now) else "receiving"
    if connector.leased_until is None or connector.leased_until < now:
        return "waits for a process"
    if connector.answered_at is None:
        return "starting"
    return "silent" if hears_nothing(connector, now=now) else "working"


NO_POSITION_FOR = timedelta(hours=24)


def hears_nothing(connector: Connector, *, now: datetime) -> bool:
    """True if the vendor answers, or may send, but has sent no position for a day."""
    newest_at = connector.newest_at
    heard_at = newest_at if newest_at is not None and newest_at <= now else connector.created_at
    return connector.paused_at is None and now - max(heard_at, connector.created_at) > NO_POSITION_FOR


# --- Changes -----------------------------------------------------------------------------------------------------
# Each ends the lease: the process that polls begins anew, with what holds from now on.

_SET_ACCESS = Command(
    "UPDATE connectors SET url = %s, credentials = %s, asks = %s, cursor = CASE WHEN %s THEN cursor END,"
    " cursor_doubted = %s,"
    " lease_number = lease_number + 1, leased_until = NULL, leased_by = NULL, due_at = NULL, failures = 0,"
    " failing_since = NULL, last_error = NULL, what_to_do = NULL WHERE id = %s"
)
_PAUSE = Command(
    "UPDATE connectors SET paused_at = coalesce(paused_at, %s), lease_number = lease_number + 1, leased_until = NULL,"
    " leased_by = NULL WHERE id = %s"
)
_RESUME = Command(
    "UPDATE connectors SET paused_at = NULL, due_at = NULL, failures = 0, failing_since = NULL, last_error = NULL,"
    " what_to_do = NULL WHERE id = %s"
)
_REMOVE = Command("DELETE FROM connectors WHERE id = %s")
_REMOVE_VEHICLES = Command("DELETE FROM connector_vehicles WHERE connector_id = %s")


def change_access(
    connection: Connection,
    company_id: UUID,
    connector_id: UUID,
    by: Actor,
    *,
    credentials: Mapping[FieldName, str],
    url: str = "",
    allowed: AllowedHosts,
    contacts: Contacts,
) -> None:
    """Gives it other credentials. With another address, or another database there, it begins with the newest positions,
    because the cursor belongs to the old one. Other credentials may be of another account: the cursor is doubted until
    it brings something. Raises UnknownConnector, and UnusableConnector, which names the value that cannot be set."""
    stored = CONNECTORS.lock(connection, company_id, connector_id)
    vendor = vendor_of(stored.kind)
    url = checked_url(vendor, url or stored.url, allowed)
    values = checked_credentials(vendor, credentials)
    before = _credentials_of(connection, company_id, connector_id, contacts)
    is_same = before is not None and url == stored.url and vendor().source_of(before) == vendor().source_of(values)
    sealed = contacts.seal(write(values).decode())
    parameters = (url, sealed, vendor().asks(values), is_same, is_same and before != values, connector_id)
    _SET_ACCESS.execute(connection, parameters)
    record_about(connection, by, Action("connectors.change"), "con", connector_id, company_id=company_id)


def _credentials_of(
    connection: Connection, company_id: UUID, connector_id: UUID, contacts: Contacts
) -> Mapping[FieldName, str] | None:
    """The credentials; None if they can no longer be opened."""
    try:
        return read_access(connection, company_id, connector_id, contacts=contacts).credentials
    except UnreadableContact:
        return None


def pause_connector(connection: Connection, company_id: UUID, connector_id: UUID, by: Actor, *, now: datetime) -> bool:
    """Nothing is asked or taken any more. False: it was paused already. Raises UnknownConnector."""
    if CONNECTORS.lock(connection, company_id, connector_id).paused_at is not None:
        return False
    _PAUSE.execute(connection, (now, connector_id))
    record_about(connection, by, Action("connectors.pause"), "con", connector_id, company_id=company_id)
    return True


def resume_connector(connection: Connection, company_id: UUID, connector_id: UUID, by: Actor) -> bool:
    """It goes on at its cursor: what its vendor kept meanwhile comes in. False: it was not paused. Raises
    UnknownConnector."""
    if CONNECTORS.lock(connection, company_id, connector_id).paused_at is None:
        return False
    _RESUME.execute(connection, (connector_id,))
    record_about(connection, by, Action("connectors.resume"), "con", connector_id, company_id=company_id)
    return True


def remove_connector(connection: Connection, company_id: UUID, connector_id: UUID, by: Actor) -> None:
    """Forgets it, its credentials and its vehicles. Positions stay. Raises UnknownConnector."""
    CONNECTORS.lock(connection, company_id, connector_id)
    _REMOVE_VEHICLES.execute(connection, (connector_id,))
    _REMOVE.execute(connection, (connector_id,))
    record_about(connection, by, Action("connectors.remove"), "con", connector_id, company_id=company_id)


# --- Credentials -------------------------------------------------------------------------------------------------


class _StoredAccess(NamedTuple):
    url: str
    credentials: str


_READ_ACCESS = Statement(_StoredAccess, "SELECT url, credentials FROM connectors WHERE company_id = %s AND id = %s")


def read_access(connection: Connection, company_id: UUID, connector_id: UUID, *, contacts: Contacts) -> Access:
    """The address and the credentials. Raises UnknownConnector, and UnreadableContact if they are sealed with another
    key."""
    row = _READ_ACCESS.first(connection, (company_id, connector_id))
    if row is None:
        raise UnknownConnector(shown_id("con", connector_id))
    return open_access(row.url, row.credentials, contacts)


def open_access(url: str, sealed: str, contacts: Contacts) -> Access:
    """The address and the opened credentials. Raises UnreadableContact if they are sealed with another key."""
    return Access(url, msgspec.json.decode(contacts.open(sealed) or "{}", type=dict[str, str]))


CREDENTIALS = SealedColumn("connectors", "credentials")


# --- The rules for values ----------------------------------------------------------------------------------------


def checked_url(vendor: type[Vendor], url: str, allowed: AllowedHosts) -> str:
    """The address; without a slash at its end if paths are added to it. Raises UnusableConnector, with the reason, if
    it must not be called."""
    wanted = (url.strip() if vendor.is_url_whole else url.strip().rstrip("/")) or vendor.default_url
    if wanted is None:
        raise UnusableConnector(f"{vendor.title} needs an address, such as https://gps.example.com")
    if (fault := url_fault(wanted, allowed, ALLOWED_HOSTS_SETTING)) is not None:
        raise UnusableConnector(f"the address {fault}")
    if "?" in wanted:
        raise UnusableConnector("the address has a query: leave out what follows the question mark")
    return wanted


def checked_credentials(vendor: type[Vendor], credentials: Mapping[FieldName, str]) -> dict[FieldName, str]:
    """The given values, without spaces around them. Raises UnusableConnector, with the reason, if one is missing or
    wrong."""
    known = {field.name: field for field in vendor.fields}
    unknown = [name for name in credentials if name not in known]
    if unknown:
        raise UnusableConnector(f"{vendor.title} has no {unknown[0]!r}: it takes {', '.join(known)}")
    values = {name: value.strip() for name, value in credentials.items() if value.strip()}
    for field in vendor.fields:
        value = values.get(field.name)
        if value is None and field.required:
            raise UnusableConnector(f"give the {field.title} ({field.name}). {field.help}")
        if value is None:
            continue
        if len(value) > _LONGEST_VALUE or (not field.many_lines and not value.isprintable()):
            raise UnusableConnector(f"the {field.title} is one line of text")
    if (fault := vendor().faults_of(values)) is not None:
        raise UnusableConnector(fault)
    return values

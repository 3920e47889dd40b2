"""Endpoints of webhooks: URLs of companies, the types of events that each wants, and its secrets.

Owners bring the URLs, so they are treated as hostile by the rule in `accounts/allowed_hosts.py`."""

import base64
import secrets
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.accounts.allowed_hosts import AllowedHosts, url_fault
from domain.accounts.companies import lock_company
from domain.accounts.contacts import Contacts, SealedColumn, UnreadableContact
from domain.audit.entries import Action, Actor, record_about
from domain.database.connections import Connection, Tenant
from domain.database.owned import Owned
from domain.database.statements import Command, OwnedRow, Statement
from domain.errors import FuelrouteError, Unknown
from domain.ids import new_id
from domain.queue.jobs import Job, deliver_webhooks_job
from domain.webhooks.events import EVENT_TYPES

MOST_ENDPOINTS = 10
"""Most endpoints of a company in one environment."""

SECRET_OVERLAP = timedelta(hours=24)
"""Time after a rotation in which the former secrets sign, too."""

MOST_FORMER_SECRETS = 5
"""Most secrets that sign beside the new one: each is a part of a header of every request."""

LONGEST_DESCRIPTION = 200
_SECRET_BYTES = 32

ALLOWED_HOSTS_OF_WEBHOOKS = "FUELROUTE_WEBHOOK_ALLOWED_HOSTS"


class UnusableEndpoint(FuelrouteError):
    """A value cannot be set; the text names it."""


class UnknownEndpoint(Unknown):
    def __init__(self, named: str) -> None:
        super().__init__(f"there is no webhook endpoint {named!r}: see `fuelroute webhooks list`")


class Endpoint(NamedTuple):
    """An endpoint as people see it, without its secrets."""

    id: UUID
    company_id: UUID
    environment: str
    url: str
    description: str
    event_types: list[str] | None
    """The wanted types; None for all."""
    created_at: datetime
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    former_secret_until: datetime | None


class EndpointChanges(NamedTuple):
    """The values to change; None leaves a value as it is. An empty list of types stands for all types."""

    url: str | None = None
    description: str | None = None
    event_types: Sequence[str] | None = None


class NewSecret(NamedTuple):
    """An endpoint with its secret, which is shown only now."""

    endpoint: Endpoint
    secret: str


ENDPOINTS = Owned(
    Endpoint,
    "webhook_endpoints",
    kind="whe",
    unknown=UnknownEndpoint,
    order="environment, id",
    counted_by=("company_id", "environment"),
)
"""The endpoints of companies, in both environments. They are locked before their deliveries, deliveries before
events."""

_INSERT = Statement(
    Endpoint,
    "INSERT INTO webhook_endpoints (id, company_id, environment, url, description, event_types, secret)"
    f" VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING {ENDPOINTS.columns}",
)
_SET = Statement(
    Endpoint,
    "UPDATE webhook_endpoints SET url = %s, description = %s, event_types = %s, failing_since = NULL"
    f" WHERE company_id = %s AND id = %s RETURNING {ENDPOINTS.columns}",
)
_WAIT_NO_LONGER = Command(
    "UPDATE webhook_deliveries SET failures = 0, retry_at = greatest(claimed_until, %s)"
    " WHERE endpoint_id = %s AND status = 'pending' AND retry_at > %s"
)
"""The failures were of a former URL. A delivery that is claimed stays so: its attempt may be under way."""


def add_endpoint(
    connection: Connection,
    tenant: Tenant,
    values: EndpointChanges,
    by: Actor,
    *,
    allowed: AllowedHosts,
    contacts: Contacts,
) -> NewSecret:
    """Stores a new, enabled endpoint. Raises UnusableEndpoint, which names the value that cannot be set,
    UnknownCompany, RetiredCompany."""
    url, description, event_types = _checked(values, allowed)
    lock_company(connection, tenant.company_id)
    full = UnusableEndpoint(
        f"the company has {MOST_ENDPOINTS} webhook endpoints in {tenant.environment}: remove one first"
    )
    ENDPOINTS.require_room(connection, tenant, MOST_ENDPOINTS, full)
    secret = _new_secret()
    parameters = (new_id(), *tenant, url or "", description or "", event_types or None, contacts.seal(secret))
    made = _INSERT.one(connection, parameters)
    record_about(connection, by, Action("webhooks.add"), "whe", made.id, company_id=made.company_id)
    return NewSecret(made, secret)


def change_endpoint(
    connection: Connection,
    company_id: UUID,
    endpoint_id: UUID,
    values: EndpointChanges,
    by: Actor,
    *,
    allowed: AllowedHosts,
    now: datetime,
) -> Endpoint:
    """Changes an endpoint, and returns it as it is now. At another URL its waiting deliveries are due at once. Raises
    UnknownEndpoint, and UnusableEndpoint, which names the value that cannot be set."""
    stored = ENDPOINTS.lock(connection, company_id, endpoint_id)
    url, description, event_types = _checked(
        values._replace(url=stored.url if values.url is None else values.url), allowed
    )
    kept = stored.event_types if event_types is None else event_types or None
    parameters = (url, stored.description if description is None else description, kept, company_id, endpoint_id)
    if url != stored.url:
        _WAIT_NO_LONGER.execute(connection, (now, endpoint_id, now))
    record_about(connection, by, Action("webhooks.change"), "whe", endpoint_id, company_id=company_id)
    return _SET.one(connection, parameters)


_ENABLE = Command(
    "UPDATE webhook_endpoints SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL WHERE id = %s"
)
_DISABLE = Command(
    "UPDATE webhook_endpoints SET disabled_at = %s, disabled_reason = %s, failing_since = %s WHERE id = %s"
)
_END_PENDING = Command(
    "UPDATE webhook_deliveries SET status = 'failed', ended_at = %s, error = %s, claimed_until = NULL"
    " WHERE endpoint_id = %s AND status = 'pending'"
)
_REMOVE = Command("DELETE FROM webhook_endpoints WHERE id = %s")


def enable_endpoint(connection: Connection, company_id: UUID, endpoint_id: UUID, by: Actor) -> None:
    """Lets events be captured for it from now on. Earlier events can be replayed. Raises UnknownEndpoint."""
    ENDPOINTS.lock(connection, company_id, endpoint_id)
    _ENABLE.execute(connection, (endpoint_id,))
    record_about(connection, by, Action("webhooks.enable"), "whe", endpoint_id, company_id=company_id)


def disable_endpoint(
    connection: Connection,
    company_id: UUID,
    endpoint_id: UUID,
    by: Actor,
    *,
    now: datetime,
    failing_since: datetime | None = None,
) -> bool:
    """Captures no more events for it, and ends its waiting deliveries as failed. It keeps the reason. `failing_since`
    is None if a person asks for it. Returns False if it was disabled already. Raises UnknownEndpoint."""
    if ENDPOINTS.lock(connection, company_id, endpoint_id).disabled_at is not None:
        return False
    reason = by.with_reason("by hand").reason
    _DISABLE.execute(connection, (now, reason, failing_since, endpoint_id))
    _END_PENDING.execute(connection, (now, f"The endpoint was disabled: {reason}", endpoint_id))
    record_about(connection, by, Action("webhooks.disable"), "whe", endpoint_id, company_id=company_id)
    return True


def remove_endpoint(connection: Connection, company_id: UUID, endpoint_id: UUID, by: Actor, *, now: datetime) -> None:
    """Removes it for good. Retention deletes its deliveries. Raises UnknownEndpoint."""
    ENDPOINTS.lock(connection, company_id, endpoint_id)
    _END_PENDING.execute(connection, (now, "The endpoint was removed", endpoint_id))
    _REMOVE.execute(connection, (endpoint_id,))
    record_about(connection, by, Action("webhooks.remove"), "whe", endpoint_id, company_id=company_id)


# --- Secrets ---------------------------------------------------------------------------------------------------

_ROTATE = Statement(
    Endpoint,
    "UPDATE webhook_endpoints SET former_secret = %s, former_secret_until = %s, secret = %s"
    f" WHERE company_id = %s AND id = %s RETURNING {ENDPOINTS.columns}",
)


class _Secrets(NamedTuple):
    secret: str
    former_secret: str | None


_SECRETS = Statement(
    _Secrets,
    "SELECT secret, CASE WHEN former_secret_until > %s THEN former_secret END AS former_secret FROM webhook_endpoints"
    " WHERE company_id = %s AND id = %s",
)


def rotate_secret(
    connection: Connection, company_id: UUID, endpoint_id: UUID, by: Actor, *, contacts: Contacts, now: datetime
) -> NewSecret:
    """Gives it a new secret. The former one signs along with it for a day, and so do those that still sign because of
    earlier rotations: nobody knows which one the receiver has. Raises UnknownEndpoint, and UnusableEndpoint after too
    many rotations within a day."""
    secret = _new_secret()
    ENDPOINTS.lock(connection, company_id, endpoint_id)
    stored = _SECRETS.one(connection, (now, company_id, endpoint_id))
    former = stored.secret if stored.former_secret is None else _joined(stored.secret, stored.former_secret, contacts)
    parameters = (former, now + SECRET_OVERLAP, contacts.seal(secret), company_id, endpoint_id)
    record_about(connection, by, Action("webhooks.rotate_secret"), "whe", endpoint_id, company_id=company_id)
    return NewSecret(_ROTATE.one(connection, parameters), secret)


def _joined(secret: str, former: str, contacts: Contacts) -> str | None:
    """Secrets to store as the former ones, sealed together. A space divides them."""
    try:
        secrets = [contacts.open(secret) or "", *former_secrets(former, contacts)]
    except UnreadableContact:
        return secret  # those that cannot be opened sign nothing
    if len(secrets) > MOST_FORMER_SECRETS:
        raise UnusableEndpoint(f"{MOST_FORMER_SECRETS} former secrets still sign: wait a day after the last rotation")
    return contacts.seal(" ".join(secrets))


def former_secrets(stored: str | None, contacts: Contacts) -> list[str]:
    """The former secrets, the latest first. Raises UnreadableContact if they cannot be opened."""
    return (contacts.open(stored) or "").split()


def _new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"


ENDPOINT_SECRETS = SealedColumn("webhook_endpoints", "secret")
FORMER_ENDPOINT_SECRETS = SealedColumn("webhook_endpoints", "former_secret")


def shown_url(url: str) -> str:
    """The URL for lists, pages and logs, without its query, which may hold a secret of the receiver."""
    before, question, _ = url.partition("?")
    return f"{before}?***" if question else before


# --- Hints -----------------------------------------------------------------------------------------------------

_ENABLED = Statement(
    OwnedRow, "SELECT id, company_id FROM webhook_endpoints WHERE company_id = ANY(%s) AND disabled_at IS NULL"
)


def delivery_jobs(connection: Connection, company_ids: Iterable[UUID]) -> list[Job]:
    """Jobs to enqueue after a commit that may have changed routes of these companies: one for each enabled endpoint."""
    return [deliver_webhooks_job(*row) for row in _ENABLED.all(connection, (list(company_ids),))]


# --- The rule for values ---------------------------------------------------------------------------------------


def _checked(values: EndpointChanges, allowed: AllowedHosts) -> tuple[str | None, str | None, list[str] | None]:
    """URL, description and types to store. Raises UnusableEndpoint, which names the value that cannot be set."""
    url = values.url.strip() if values.url is not None else None
    if url is not None and (fault := url_fault(url, allowed, ALLOWED_HOSTS_OF_WEBHOOKS)) is not None:
        raise UnusableEndpoint(f"the URL {fault}")
    description = values.description.strip() if values.description is not None else None
    if description is not None and (len(description) > LONGEST_DESCRIPTION or not description.isprintable()):
        raise UnusableEndpoint(f"the description is one line of at most {LONGEST_DESCRIPTION} characters")
    return url, description, None if values.event_types is None else _checked_types(values.event_types)


def _checked_types(types: Collection[str]) -> list[str]:
    for one in types:
        if one not in EVENT_TYPES:
            raise UnusableEndpoint(f"there is no event type {one!r}: use some of {', '.join(EVENT_TYPES)}")
    return [one for one in EVENT_TYPES if one in types]

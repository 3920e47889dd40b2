"""Reading the request log: the newest entries of a company first, by the filters that people know a request by.

Entries are stored by key, so the entries of a key, or of a company with few keys, are found at once, and so are failed
ones. A whole `externalId`, route id or request id is found wherever it is. Other words, statuses and codes are looked
for among the newest MOST_REQUESTS_SEARCHED."""

from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Scalar, Statement
from domain.ids import first_id_of, read_id, shown_id

MOST_REQUESTS_SEARCHED = 10_000
"""Most entries of a company in which words are looked for. Each of its keys has an equal part of them."""
_LEAST_OF_A_KEY = 200
_MOST_NAMED = 1_000
_MOST_ROUTES = 20

_LAST_ID = UUID(int=(1 << 128) - 1)


class RequestSearch(NamedTuple):
    """A search by a user of the console. Empty filters match everything."""

    key_id: UUID | None = None
    statuses: range | None = None
    """A range such as range(400, 500); None for any status."""
    code: str = ""
    text: str = ""
    """Part of what was sent, as far as it is shown, or of a fault; or a whole externalId, route id or request id."""
    since: datetime | None = None
    until: datetime | None = None


class LoggedRequest(NamedTuple):
    """A request as it is stored; see `tables.operations.RequestLog`."""

    id: UUID
    company_id: UUID
    environment: str
    key_id: UUID
    method: str
    path: str
    status: int
    code: str | None
    milliseconds: float
    size: int
    times: int
    request_id: str | None
    subject: str | None
    sent: str | None
    faults: str | None

    @property
    def at(self) -> datetime:
        """When it came in."""
        return datetime.fromtimestamp((self.id.int >> 80) / 1000, UTC)

    @property
    def shown_request_id(self) -> str:
        """The id that the answer's `X-Request-Id` had."""
        return self.request_id or self.id.hex


class FoundRequests(NamedTuple):
    requests: list[LoggedRequest]
    is_partial: bool
    """True if older ones may fit too: the search stopped after MOST_REQUESTS_SEARCHED."""
    has_more: bool


def search_requests(
    connection: Connection, company_id: UUID, wanted: RequestSearch, *, limit: int, before: UUID | None = None
) -> FoundRequests:
    """The requests that fit, the newest first; `before` is the last entry of the page before."""
    keys = [key_id for key_id in _KEYS.all(connection, (company_id,)) if wanted.key_id in (None, key_id)]
    failed = bool(wanted.code) or (wanted.statuses is not None and wanted.statuses.start >= 400)
    is_filtered = bool(wanted.text or wanted.code or wanted.statuses)
    most = max(MOST_REQUESTS_SEARCHED // max(1, len(keys)), _LEAST_OF_A_KEY) if is_filtered else limit + 1
    until = first_id_of(wanted.until) if wanted.until is not None else _LAST_ID
    parameters: dict[str, Any] = {
        "company_id": company_id,
        "key_ids": keys,
        "since": first_id_of(wanted.since) if wanted.since is not None else UUID(int=0),
        "until": min(until, before) if before is not None else until,
        "least": wanted.statuses.start if wanted.statuses is not None else 0,
        "beyond": wanted.statuses.stop if wanted.statuses is not None else 1000,
        "code": wanted.code,
        "text": wanted.text.lower(),
        "most": most,
        "limit": limit + 1,
    }
    ids = set(_NEWEST[failed].all(connection, parameters))
    is_partial = is_filtered and len(ids) <= limit and _BEYOND[failed].first(connection, parameters) is not None
    if wanted.text:
        ids |= _named(connection, company_id, parameters, wanted.text)
    newest = sorted(ids, reverse=True)[: limit + 1]
    requests = _READ.all(connection, {"key_ids": keys, "ids": newest})
    return FoundRequests(requests[:limit], is_partial, has_more=len(requests) > limit)


def find_request(connection: Connection, company_id: UUID, request_id: UUID) -> LoggedRequest | None:
    keys = _KEYS.all(connection, (company_id,))
    return _READ.first(connection, {"key_ids": keys, "ids": [request_id]})


def find_route(connection: Connection, request: LoggedRequest) -> UUID | None:
    """The route that a request was about: the newest with its `externalId`. None once it is gone."""
    if request.subject is None:
        return None
    loads = _ROUTES.all(connection, _load(request.company_id, request.subject))
    return max((load.id for load in loads if load.environment == request.environment), default=None)


_KEYS = Scalar(UUID, "SELECT id FROM api_keys WHERE company_id = %s")

_COLUMNS = (
    "r.id, r.company_id, r.environment, r.key_id, r.method, r.path, r.status, r.code, r.milliseconds, r.size, r.times,"
    " r.request_id, r.subject, r.sent, r.faults"
)
_READ = Statement(
    LoggedRequest,
    f"SELECT {_COLUMNS} FROM request_log r"
    " WHERE r.key_id = ANY(%(key_ids)s::uuid[]) AND r.id = ANY(%(ids)s::uuid[]) ORDER BY r.id DESC",
)

_IN_TIME = "r.id >= %(since)s::uuid AND r.id < %(until)s::uuid"
_IS_SO = (
    "r.status >= %(least)s::int AND r.status < %(beyond)s::int AND (%(code)s::text = '' OR r.code = %(code)s::text)"
)
_FITS = f"""(
    {_IS_SO} AND (%(text)s::text = '' OR position(%(text)s::text IN lower(r.subject)) > 0
        OR position(%(text)s::text IN lower(r.sent)) > 0 OR position(%(text)s::text IN lower(r.faults)) > 0)
)"""
"""NULL counts as false."""


def _newest(condition: str) -> str:
    """SQL that reads each key's entries one by one, until enough of them fit."""
    return f"""
        SELECT theirs.id FROM unnest(%(key_ids)s::uuid[]) AS key (id) CROSS JOIN LATERAL (
            SELECT examined.id FROM (
                SELECT r.id, {_FITS} AS fits FROM request_log r
                WHERE r.key_id = key.id AND {_IN_TIME} AND {condition}
                ORDER BY r.id DESC LIMIT %(most)s::int) AS examined
            WHERE examined.fits LIMIT %(limit)s::int) AS theirs
        ORDER BY theirs.id DESC LIMIT %(limit)s::int
    """


def _beyond(condition: str) -> str:
    return f"""
        SELECT FROM unnest(%(key_ids)s::uuid[]) AS key (id) WHERE EXISTS (
            SELECT FROM request_log r WHERE r.key_id = key.id AND {_IN_TIME} AND {condition}
            ORDER BY r.id DESC OFFSET %(most)s::int LIMIT 1)
        LIMIT 1
    """


_ALL, _FAILED = "true", "r.status >= 400"
_NEWEST = {False: Scalar(UUID, _newest(_ALL)), True: Scalar(UUID, _newest(_FAILED))}
_BEYOND = {False: Command(_beyond(_ALL)), True: Command(_beyond(_FAILED))}
"""Failed requests (True) have an index of their own."""


# --- By a whole name, wherever it is -----------------------------------------------------------------------------


class _Route(NamedTuple):
    id: UUID
    environment: str
    external_id: str


def _routes_where(condition: str) -> str:
    return (
        "(SELECT r.id, r.environment, r.external_id FROM routes r"
        f" WHERE r.company_id = %(company_id)s AND {condition} LIMIT {_MOST_ROUTES})"
    )


_IS_LOAD = "r.environment = ANY(ARRAY['live', 'sandbox']) AND r.external_id = %(external_id)s::text"
_ROUTES = Statement(
    _Route,
    " UNION ALL ".join(
        map(
            _routes_where,
            (
                "r.id = %(route_id)s::uuid",
                f"{_IS_LOAD} AND r.status <> 'canceled'",
                f"{_IS_LOAD} AND r.status = 'canceled' ORDER BY r.created_at DESC, r.id DESC",
            ),
        )
    ),
)


def _load(company_id: UUID, text: str) -> dict[str, object]:
    return {"company_id": company_id, "external_id": text, "route_id": read_id("rte", text)}


_SCANS = Scalar(str, "SELECT set_config('enable_seqscan', %s, true)")
"""Allow or forbid reading whole tables. Whole names are found by an index of ranges of the table (BRIN), which
PostgreSQL takes to be no better than reading all of it."""


class _Place(NamedTuple):
    id: UUID
    key_id: UUID


_NAMED = Statement(
    _Place,
    f"""
    SELECT r.id, r.key_id FROM request_log r
    WHERE r.company_id = %(company_id)s AND {_IS_SO}
      AND (r.subject = ANY(%(subjects)s::text[]) OR r.request_id = %(whole_text)s::text)
    ORDER BY r.id DESC LIMIT {_MOST_NAMED}
    """,
)


def _named(connection: Connection, company_id: UUID, parameters: dict[str, Any], text: str) -> set[UUID]:
    """The requests about the load or route with this name, by either of its two names, and the request with this id."""
    routes = _ROUTES.all(connection, _load(company_id, text))
    subjects = {text, *(one.external_id for one in routes), *(shown_id("rte", one.id) for one in routes)}
    _SCANS.one(connection, ("off",))
    rows = _NAMED.all(connection, {**parameters, "subjects": list(subjects), "whole_text": text})
    _SCANS.one(connection, ("on",))
    # Neither key nor time stands in the statement: they would lead to an index that holds all of a company's entries.
    found = {row.id for row in rows if row.key_id in parameters["key_ids"]}
    own = read_id("req", f"req_{text}")
    if own is not None:
        found.add(own)
    return {id for id in found if parameters["since"] <= id < parameters["until"]}

"""The checks before a company is moved. Each fault says what to do."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from psycopg import sql

from domain.accounts.contacts import Contacts
from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.moving.moved_tables import MovedTable
from domain.moving.pause import now_there

_CLOCKS_DIFFER_SECONDS = 2.0


class NotReady(FuelrouteError):
    """The company cannot be moved yet; the text lists every fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = list(faults)


class _Server(NamedTuple):
    is_superuser: NotNull[bool]
    wal_level: NotNull[str]
    free_slots: NotNull[int]
    needed_slots: NotNull[int]
    """Replication slots that the other cell needs: one for the subscription, and one for each table copied at a
    time."""
    revision: NotNull[str]


_SERVER = Statement(
    _Server,
    """
    SELECT rolsuper AS is_superuser, current_setting('wal_level') AS wal_level,
           (least(current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
                  current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication)))::int
               AS free_slots,
           current_setting('max_sync_workers_per_subscription')::int + 1 AS needed_slots,
           (SELECT version_num::text FROM alembic_version) AS revision
    FROM pg_roles WHERE rolname = current_user
    """,
)


_IS_RETIRED = Scalar(NotNull[bool], "SELECT retired_at IS NOT NULL FROM companies WHERE id = %s")


_EMAILS = Scalar(str, "SELECT email FROM users WHERE company_id = %s ORDER BY email")
_TAKEN = Scalar(str, "SELECT email FROM users WHERE email = ANY (%s) AND company_id IS DISTINCT FROM %s ORDER BY email")


class _OpenId(NamedTuple):
    email: str
    issuer: NotNull[str]
    subject: NotNull[str]


_OPENID_ACCOUNTS = Statement(
    _OpenId,
    "SELECT email, openid_issuer AS issuer, openid_subject AS subject FROM users"
    " WHERE company_id = %s AND openid_subject IS NOT NULL ORDER BY email",
)
_OPENID_TAKEN = Scalar(
    str, "SELECT email FROM users WHERE openid_issuer = %s AND openid_subject = %s AND company_id IS DISTINCT FROM %s"
)


_STATIONS = Scalar(str, "SELECT station_id FROM stations WHERE retired_at IS NULL AND retail_price IS NOT NULL")


_SEALED = Scalar(
    NotNull[str],
    """
    SELECT DISTINCT split_part(sealed, ':', 2) FROM (
        SELECT message_url AS sealed FROM companies WHERE id = %(company_id)s
        UNION ALL SELECT contact FROM drivers WHERE company_id = %(company_id)s
        UNION ALL SELECT totp_secret FROM users WHERE company_id = %(company_id)s
        UNION ALL SELECT url FROM notice_subscriptions WHERE company_id = %(company_id)s
        UNION ALL SELECT credentials FROM connectors WHERE company_id = %(company_id)s
        UNION ALL SELECT secret FROM webhook_endpoints WHERE company_id = %(company_id)s
        UNION ALL SELECT former_secret FROM webhook_endpoints WHERE company_id = %(company_id)s) AS secrets
    WHERE starts_with(sealed, 'sealed:')
    """,
)


def faults_of_servers(source: Connection, target: Connection) -> Iterator[str]:
    """The faults of the two servers, whichever company is moved."""
    here, there = _SERVER.one(source), _SERVER.one(target)
    for name, server in (("the cell that it leaves", here), ("the other cell", there)):
        if not server.is_superuser:
            yield f"the database_url of {name} is not that of a superuser: replication needs one"
    if here.wal_level != "logical":
        yield (
            f"PostgreSQL of the cell that it leaves has wal_level = {here.wal_level}: set it to logical and restart it"
            " (`fuelroute up` does so with FUELROUTE_COMPANIES_CAN_LEAVE=true)"
        )
    if here.free_slots < there.needed_slots:
        yield (
            f"the cell that it leaves has {here.free_slots} free replication slots, and {there.needed_slots} are"
            " needed: raise max_replication_slots and max_wal_senders there, or lower"
            " max_sync_workers_per_subscription in the other cell"
        )
    if here.revision != there.revision:
        yield f"the schemas differ ({here.revision} and {there.revision}): run `fuelroute migrate` in both cells"
    if abs((now_there(source) - now_there(target)).total_seconds()) > _CLOCKS_DIFFER_SECONDS:
        yield "the clocks of the two servers differ by more than two seconds: set them right"


def faults_of_company(
    source: Connection, target: Connection, company_id: UUID, keys: Contacts, tables: Sequence[MovedTable]
) -> Iterator[str]:
    """The faults of a company that has not begun to move."""
    is_retired = _IS_RETIRED.first(source, (company_id,))
    if is_retired is not False:
        yield "the company is retired: erase it instead" if is_retired else "there is no such company in this cell"
        return
    left = [table.name for table in tables if not table.only_grows and _has_rows(target, company_id, table)]
    if left:
        yield f"the other cell has rows of the company already ({', '.join(left)}): erase it there"
    yield from _faults_of_company_there(source, target, company_id, keys)


def _faults_of_company_there(source: Connection, target: Connection, company_id: UUID, keys: Contacts) -> Iterator[str]:
    emails = _EMAILS.all(source, (company_id,))
    taken = _TAKEN.all(target, (emails, company_id))
    if taken:
        yield f"users of the other cell have the same e-mail addresses: {', '.join(taken)}"
    bound = _OPENID_ACCOUNTS.all(source, (company_id,))
    doubled = [row.email for row in bound if _OPENID_TAKEN.first(target, (row.issuer, row.subject, company_id))]
    if doubled:
        yield f"users of the other cell sign in with the OpenID Connect accounts of: {', '.join(doubled)}"
    missing = _stations(source) - _stations(target)
    if missing:
        example = sorted(missing)[0]
        yield (
            f"the other cell lacks {len(missing):,} truck stops with prices, such as {example}: run"
            " `fuelroute stations import` there, or plans would be made without them"
        )
    unknown = [key for key in _SEALED.all(source, {"company_id": company_id}) if key not in keys.fingerprints]
    if unknown:
        yield (
            "the other cell cannot open the company's contacts and secrets: give its processes the contact key of this"
            " cell after their own (FUELROUTE_CONTACT_KEY=own,this), and name a file with the same in contact_key_file;"
            " housekeeping there seals them with its own key"
        )


def _stations(connection: Connection) -> set[str]:
    return set(_STATIONS.all(connection))


def _has_rows(connection: Connection, company_id: UUID, table: MovedTable) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {} = %s)").format(
        sql.Identifier(table.name), sql.Identifier(table.company_column)
    )
    return bool(connection.execute(query, (company_id,)).fetchall()[0][0])


def require(faults: Callable[[], Iterator[str]]) -> None:
    """Collect all faults. Raises NotReady with them, so that a person sees all of them at once."""
    found = list(faults())
    if found:
        raise NotReady(found)

"""The cost of typed rows, and of SQLAlchemy instead. `python -m tests.benchmarks.statements` takes half a minute.

The figures stand in `domain/database/statements.py`.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import psycopg
import sqlalchemy
import sqlmodel
from psycopg import Cursor
from psycopg.rows import namedtuple_row
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY

from deploy.embedded import EmbeddedPostgres, running
from domain.database.connections import Database, as_json, open_session
from domain.database.options import WORKING
from domain.database.statements import Statement
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.migrations import migrate
from domain.tables.routes import Routes
from tests.benchmarks.loader import FIVE_STOPS, Fleet, Lot, load_fleet, load_routes
from tests.rows import named

ROUNDS = 7
ROUTES = 64


class _Cell(NamedTuple):
    number: int
    name: str
    half: float
    at: datetime


class _Route(NamedTuple):
    id: UUID
    company_id: UUID
    environment: str
    external_id: str
    reference: str | None
    status: str
    scheduled_start: datetime
    stops: list[dict[str, Any]]


class _Created(NamedTuple):
    id: UUID
    created_at: datetime


_CELLS = Statement(
    _Cell,
    "SELECT number, 'unit ' || number AS name, number / 2.0::float8 AS half, now() AS at"
    " FROM generate_series(1, 100000) AS number",
)
_ROUTES = Statement(_Route, f"SELECT {', '.join(_Route._fields)} FROM routes WHERE id = ANY(%s)")
_INSERT = Statement(
    _Created,
    """
    INSERT INTO routes (id, company_id, environment, external_id, vehicle_unit_number, driver_name, scheduled_start,
                        stops, status)
    SELECT id, company_id, environment, external_id, vehicle_unit_number, driver_name, scheduled_start, stops, status
    FROM jsonb_to_recordset(%s) AS pushed (id uuid, company_id uuid, environment text, external_id text,
        vehicle_unit_number text, driver_name text, scheduled_start timestamptz, stops jsonb, status text)
    ON CONFLICT DO NOTHING
    RETURNING id, created_at
    """,
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fuelroute-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        with running(server) as url, Database(url) as database:
            migrate(url)
            with psycopg.connect(server.admin_url) as admin:  # filling a table skips its checks
                admin.execute("GRANT SET ON PARAMETER session_replication_role TO fuelroute")
            _rows(database)
            _layers(database)


def _rows(database: Database) -> None:
    """Only what makes rows of a result that has come in: the server's share is the same."""
    with database.transaction() as connection:
        cursors: dict[str, Cursor[Any]] = {
            "100,000 rows, namedtuple_row": connection.cursor(row_factory=namedtuple_row).execute(_CELLS.text),
            "100,000 rows, Statement": _CELLS.execute(connection),
        }
        compare({name: partial(_read_again, cursor) for name, cursor in cursors.items()}, repeats=1)


def _read_again(cursor: Cursor[Any]) -> list[Any]:
    cursor.scroll(0, mode="absolute")
    return cursor.fetchall()


def _layers(database: Database) -> None:
    """Do one work in each layer, with equal options of the session and one JSON reader, in open transactions."""
    now = datetime.now(UTC)
    with database.transaction() as connection:
        fleet = load_fleet(connection, ROUTES)
    load_routes(database, [Lot(fleet, ROUTES, RouteStatus.DRAFT, (now, now + timedelta(days=1)))])
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: open_session(database.url, WORKING),
        json_serializer=lambda value: write(value).decode(),
        json_deserializer=msgspec.json.decode,
    )
    with open_session(database.url, WORKING) as ours, engine.connect() as core, sqlmodel.Session(engine) as session:
        ids = [row.id for row in named(ours).execute("SELECT id FROM routes").fetchall()]
        wanted = sqlmodel.col(Routes.id) == sqlalchemy.any_(sqlalchemy.literal(ids, ARRAY(sqlalchemy.Uuid)))
        by_core = sqlalchemy.select(*(getattr(Routes, name) for name in _Route._fields)).where(wanted)
        by_model = sqlmodel.select(Routes).where(wanted)
        insert = (
            postgresql.insert(Routes)
            .on_conflict_do_nothing()
            .returning(sqlmodel.col(Routes.id), sqlmodel.col(Routes.created_at))
        )

        def models() -> Any:
            session.expunge_all()
            return session.exec(by_model).all()

        reads: dict[str, Callable[[], Any]] = {
            f"{ROUTES} routes by id, Statement": lambda: _ROUTES.all(ours, (ids,)),
            f"{ROUTES} routes by id, SQLAlchemy Core": lambda: core.execute(by_core).all(),
            f"{ROUTES} routes by id, SQLModel": models,
        }
        inserts: dict[str, Callable[[], Any]] = {
            f"insert of {ROUTES} routes, Statement": lambda: _INSERT.all(ours, (as_json(_pushed(fleet, now)),)),
            f"insert of {ROUTES} routes, SQLAlchemy Core": lambda: core.execute(insert, _pushed(fleet, now)).all(),
        }
        for works, repeats in (reads, 300), (inserts, 30):
            if any(len(work()) != ROUTES for work in works.values()):
                raise SystemExit("a work did not do its work")
            compare(works, repeats=repeats)
        ours.rollback()


def _pushed(fleet: Fleet, now: datetime) -> list[dict[str, Any]]:
    return [
        {
            "id": (id_ := new_id()),
            "company_id": fleet.company_id,
            "environment": "live",
            "external_id": id_.hex,
            "vehicle_unit_number": "00001",
            "driver_name": "Driver 00001",
            "scheduled_start": now,
            "stops": FIVE_STOPS,
            "status": "pending",
        }
        for _ in range(ROUTES)
    ]


def compare(works: Mapping[str, Callable[[], Any]], *, repeats: int) -> None:
    """Processor time of this process, which is what bounds a service in Python: the median of some rounds, in which the
    works take turns, and its ratio to the first."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            started = time.process_time()
            for _ in range(repeats):
                work()
            seconds[name].append((time.process_time() - started) / repeats)
    medians = {name: statistics.median(rounds) for name, rounds in seconds.items()}
    first = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"{name:45} {median * 1000:9.4f} ms {median / first:6.2f}")


if __name__ == "__main__":
    main()

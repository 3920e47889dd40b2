"""Retention removes data of finished routes after its days, and the API goes on answering."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database
from domain.database.statements import Command, Scalar
from domain.housekeeping import retention
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.routes import events, transitions
from domain.routes.reading.explanations import read_route_explanation
from domain.routes.reading.lookups import read_routes
from domain.savings.recording import record_savings
from domain.telematics import position_partitions
from tests.conftest import own_database
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, route_row
from tests.factories import JOLIET, Fleet
from tests.rows import named, nodes

FORGET = {
    "evidence": retention.forget_evidence,
    "explanations": retention.forget_explanations,
    "texts": retention.forget_texts,
    "event_details": retention.forget_event_details,
}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with own_database("retention") as opened:
        yield opened


def driven(connection: Connection, fleet: Fleet, *, now: datetime, status: str = "completed") -> UUID:
    """A route with a plan, its message and two visits, that came to that status now."""
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now, generatedAt=None)
    connection.execute(
        "UPDATE messages SET status = 'failed', retry_at = NULL, taken_by = '{0123456789abcdef}' WHERE id = %s",
        (message_id,),
    )
    events.record_event(connection, route_id, "plan_again", "prices were wrong", by="dot@example.com", now=now)
    connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (b"packed", route_id))
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, departed_at, arrival_evidence,"
        " departure_evidence) SELECT %s, %s, %s, stop, %s, %s, '{}', '{}' FROM generate_series(0, 1) AS stop",
        (*fleet.live, route_id, now, now),
    )
    connection.execute(
        "UPDATE routes SET status = %s, arrived_at = %s, updated_at = %s WHERE id = %s", (status, now, now, route_id)
    )
    return route_id


def kept(connection: Connection, route_id: UUID) -> dict[str, int]:
    """The number of stored values of each kind."""
    row = (
        named(connection)
        .execute(
            "SELECT (SELECT count(*) FROM visits WHERE route_id = %(id)s AND arrival_evidence IS NOT NULL"
            "        AND departure_evidence IS NOT NULL) AS evidence,"
            " (SELECT count(*) FROM plans WHERE route_id = %(id)s AND explanation IS NOT NULL) AS explanations,"
            " (SELECT count(*) FROM messages WHERE route_id = %(id)s AND (text IS NOT NULL OR taken_by IS NOT NULL))"
            "        AS texts,"
            " (SELECT count(*) FROM route_events WHERE route_id = %(id)s AND detail IS NOT NULL) AS event_details",
            {"id": route_id},
        )
        .fetchone()
    )
    assert row is not None
    return dict(row._asdict())


@pytest.mark.parametrize("kind", FORGET)
@pytest.mark.parametrize("status", ["completed", "error", "canceled"])
def test_each_kind_of_data_is_deleted_after_its_own_days(
    connection: Connection, fleet: Fleet, now: datetime, kind: str, status: str
) -> None:
    route_id = driven(connection, fleet, now=now, status=status)
    before = kept(connection, route_id)
    ((answer),) = read_routes([(fleet.live, route_id)]).on(connection)

    FORGET[kind](connection, days=90, now=now + timedelta(days=89), limit=10)
    assert kept(connection, route_id) == before == {"evidence": 2, "explanations": 1, "texts": 1, "event_details": 1}
    FORGET[kind](connection, days=90, now=now + timedelta(days=91), limit=10)
    assert kept(connection, route_id) == {**before, kind: 0}
    assert FORGET[kind](connection, days=90, now=now + timedelta(days=91), limit=10) == 0

    assert read_routes([(fleet.live, route_id)]).on(connection) == [answer]  # its version too


@pytest.mark.parametrize("status", sorted(set(RouteStatus) - {"completed", "error", "canceled"}))
def test_a_route_that_is_not_finished_keeps_everything(
    connection: Connection, fleet: Fleet, now: datetime, status: str
) -> None:
    route_id = driven(connection, fleet, now=now, status=status)
    before = kept(connection, route_id)

    for forget in (*FORGET.values(), retention.forget_routes):
        forget(connection, days=90, now=now + timedelta(days=400), limit=10)

    assert kept(connection, route_id) == before


def test_a_portion_is_bounded_and_the_next_one_continues(connection: Connection, fleet: Fleet, now: datetime) -> None:
    for _ in range(3):
        driven(connection, fleet, now=now)
    later = now + timedelta(days=91)

    assert [retention.forget_evidence(connection, days=90, now=later, limit=4) for _ in range(3)] == [4, 2, 0]
    assert [retention.forget_routes(connection, days=90, now=later, limit=2) for _ in range(3)] == [2, 1, 0]


def test_a_deleted_explanation_is_not_shown(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = driven(connection, fleet, now=now)

    retention.forget_explanations(connection, days=90, now=now + timedelta(days=91), limit=10)

    assert read_route_explanation(connection, route_id) is None


def test_a_route_is_deleted_with_all_that_belongs_to_it(connection: Connection, fleet: Fleet, now: datetime) -> None:
    old = driven(connection, fleet, now=now)
    young = driven(connection, fleet, now=now)
    connection.execute("UPDATE routes SET updated_at = %s WHERE id = %s", (now + timedelta(days=2), young))
    record_savings(connection, old)

    assert retention.forget_routes(connection, days=90, now=now + timedelta(days=91), limit=10) == 1

    assert read_routes([(fleet.live, old)]).on(connection) == [None]
    assert set(kept(connection, old).values()) == {0}
    assert route_row(connection, young).status == "completed"
    stored = connection.execute("SELECT route_id FROM statement_trips WHERE company_id = %s", (fleet.company_id,))
    assert stored.fetchall() == [(old,)], "the statement of its month is not made yet"


# --- Positions -------------------------------------------------------------------------------------------------


Stored = Callable[[], list[Any]]


@pytest.fixture
def stored(connection: Connection, fleet: Fleet) -> Stored:
    def look() -> list[Any]:
        return (
            named(connection)
            .execute(
                "SELECT environment, recorded_at FROM positions WHERE vehicle_id = ANY(%s) ORDER BY 1, 2",
                (list(fleet.trucks),),
            )
            .fetchall()
        )

    return look


def forget(connection: Connection, now: datetime) -> None:
    position_partitions.maintain_partitions(connection, retention_days=30, now=now)
    position_partitions.forget_positions(connection, days=30, now=now, limit=1_000)


def test_positions_of_the_sandbox_are_deleted_by_the_time_they_came_in(
    connection: Connection, fleet: Fleet, stored: Stored, now: datetime
) -> None:
    far, past = now + timedelta(days=365_000), now - timedelta(days=365)
    post(connection, fleet.sandbox, positions_at(JOLIET, far, count=1), now=now)
    post(connection, fleet.sandbox, positions_at(JOLIET, past, count=1), now=now)

    forget(connection, now + timedelta(days=29))
    assert len(stored()) == 2
    forget(connection, now + timedelta(days=31))
    assert stored() == []


def test_a_late_live_position_of_long_ago_is_deleted_at_once(
    connection: Connection, fleet: Fleet, stored: Stored, now: datetime
) -> None:
    post(connection, fleet.live, positions_at(JOLIET, now - timedelta(days=40), count=1), now=now)
    forget(connection, now)
    assert stored() == []


def test_the_last_position_is_deleted_with_the_others(connection: Connection, fleet: Fleet, now: datetime) -> None:
    def tracks() -> int:
        return (
            named(connection).execute("SELECT FROM tracks WHERE vehicle_id = ANY(%s)", (list(fleet.trucks),)).rowcount
        )

    post(connection, fleet.live, positions_at(JOLIET, now, count=1), now=now)
    post(connection, fleet.sandbox, positions_at(JOLIET, now + timedelta(days=99), count=1), now=now)
    post(connection, fleet.live, positions_at(JOLIET, now, count=1, unit_number="102"), now=now)
    later = now + timedelta(days=25)
    position_partitions.maintain_partitions(connection, retention_days=30, now=later)
    post(connection, fleet.live, positions_at(JOLIET, later, count=1, unit_number="102"), now=later)
    connection.execute("UPDATE tracks SET unprocessed_from = NULL")  # as the sweep has them processed

    forget(connection, now + timedelta(days=29))
    assert tracks() == 3
    forget(connection, now + timedelta(days=33))
    assert tracks() == 1


@pytest.mark.parametrize(
    "statement",
    [retention._BLANK_EVIDENCE, retention._BLANK_TEXTS, retention._BLANK_EVENTS, transitions._EXPIRE_STARTED],
    ids=["evidence", "texts", "events", "expired routes"],
)
def test_housekeeping_finds_routes_and_visits_by_their_keys(
    connection: Connection, statement: Scalar[UUID] | Command, now: datetime
) -> None:
    """A join by hash or in the order of ids would read the whole table, or all routes before the first one due."""
    connection.execute("SET LOCAL enable_nestloop = off")
    asked = {"before": now, "since": now, "days": 14.0, "oldest_id": new_id(), "limit": 1000}
    ((explained,),) = connection.execute(f"EXPLAIN (FORMAT JSON) {statement.text}", asked).fetchall()
    kinds = [node["Node Type"] for node in nodes(explained[0]["Plan"])]
    assert not {"Hash Join", "Merge Join"} & set(kinds), kinds

"""A trip by hand with a link and a plan, and answers to it."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.driver_page.answers import TakenAnswer, take_answer
from domain.driver_page.given_answers import GivenAnswer
from domain.driver_page.links import DriverLink
from domain.ids import new_id
from domain.lifecycle import AnswerKind, RefusalReason
from tests.domain.helpers import imported, planned_by_hand, route_row
from tests.rows import named


def link_to(connection: Connection, route_id: UUID, *, driver_id: UUID | None = None) -> DriverLink:
    route = route_row(connection, route_id)
    expires_at = datetime.max.replace(tzinfo=UTC)
    link = DriverLink(new_id(), route.company_id, route.environment, route_id, driver_id or route.driver_id, expires_at)
    connection.execute(
        "INSERT INTO driver_links (id, company_id, environment, route_id, driver_id, expires_at, created_at,"
        " token_hash) VALUES (%s, %s, %s, %s, %s, %s, now(), %s)",
        (*link, link.id.bytes),
    )
    return link


class AnsweredTrip(NamedTuple):
    """An active trip whose driver has a plan of two fuel stops, Lakeside and Keystone."""

    connection: Connection
    route_id: UUID
    plan_id: UUID
    now: datetime

    def given(self, kind: AnswerKind = AnswerKind.GOING, **more: Any) -> GivenAnswer:
        fields: dict[str, Any] = {"key": new_id().hex, "plan_id": self.plan_id, "sequence": 0, "kind": kind, **more}
        return GivenAnswer(**fields)

    def refused(self, reason: RefusalReason = RefusalReason.CLOSED, **more: Any) -> GivenAnswer:
        return self.given(AnswerKind.REFUSED, reason=reason, **more)

    def take(
        self, given: GivenAnswer, *, after: timedelta = timedelta(0), link: DriverLink | None = None
    ) -> TakenAnswer:
        own = link or link_to(self.connection, self.route_id)
        return take_answer(self.connection, own, given, now=self.now + after)

    def forget_answers(self) -> None:
        self.connection.execute("DELETE FROM driver_answers WHERE route_id = %s", (self.route_id,))

    def end(self, status: str = "completed") -> None:
        self.connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, self.route_id))

    @property
    def answers(self) -> list[Any]:
        return (
            named(self.connection)
            .execute("SELECT * FROM driver_answers WHERE route_id = %s ORDER BY id", (self.route_id,))
            .fetchall()
        )


def trip_with_plan(connection: Connection, tenant: Tenant, *, now: datetime, **plan: Any) -> AnsweredTrip:
    route_id = imported(connection, tenant, now=now)
    planned_by_hand(connection, route_id, now=now, **plan)
    connection.execute("UPDATE routes SET status = 'active', arrived_at = %s WHERE id = %s", (now, route_id))
    return AnsweredTrip(connection, route_id, route_row(connection, route_id).plan_id, now)

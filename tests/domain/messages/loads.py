"""A load whose route is planned: its messages are claimed, settled and replaced step by step."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from domain.database.connections import Connection, Database
from domain.lifecycle import RouteStatus
from domain.messages import message_life
from domain.messages.gateways import Fault
from domain.messages.message_life import MessageClaim, MessageStatus
from domain.queue.jobs import Job
from domain.routes.plans import delivery
from domain.settings import Settings
from tests.domain.helpers import imported, planned_by_hand, status_of
from tests.factories import Fleet, make_fleet
from tests.jobs import jobs_of
from tests.rows import named

PATIENT_SECONDS = 60.0
"""The time for an attempt at a gateway that answers: on a busy machine one took more than 5 s."""


def message(connection: Connection, message_id: UUID) -> Any:
    (row,) = named(connection).execute("SELECT * FROM messages WHERE id = %s", (message_id,)).fetchall()
    return row


def contact(connection: Connection, fleet: Fleet, url: str) -> None:
    connection.execute("UPDATE drivers SET contact = %s WHERE id = %s", (url, fleet.drivers[0]))


def message_url(connection: Connection, fleet: Fleet, url: str) -> None:
    connection.execute("UPDATE companies SET message_url = %s WHERE id = %s", (url, fleet.company_id))


def refused_message(connection: Connection, fleet: Fleet, *, retry_at: datetime) -> UUID:
    """A message that its gateway has refused, and that waits for its next attempt."""
    route_id = imported(connection, fleet.live, now=retry_at)
    message_id = planned_by_hand(connection, route_id, now=retry_at)
    refused = "UPDATE messages SET attempts = 9, error = 'no', retry_at = %s WHERE id = %s"
    connection.execute(refused, (retry_at, message_id))
    return message_id


@dataclass
class Load:
    """A planned route that other connections can see, with its first message, which goes to the gateway."""

    database: Database
    settings: Settings
    fleet: Fleet
    now: datetime
    route_id: UUID = field(init=False)
    message_id: UUID = field(init=False)
    jobs: list[Job] = field(default_factory=list)
    """The jobs that the last step collected."""

    @classmethod
    def planned(cls, database: Database, settings: Settings, now: datetime, url: str, **changes: Any) -> "Load":
        allowing = settings.model_copy(update={"message_allowed_hosts": "127.0.0.1", "message_timeout_seconds": 5})
        with database.transaction() as connection:
            load = cls(database, allowing, make_fleet(connection), now)
            contact(connection, load.fleet, url)
            load.plan_route(connection, externalId="LOAD", **changes)
        return load

    def plan_route(self, connection: Connection, **changes: Any) -> UUID:
        self.route_id = imported(connection, self.fleet.live, now=self.now, **changes)
        self.message_id = planned_by_hand(connection, self.route_id, now=self.now)
        return self.message_id

    def claim(self, message_id: UUID | None = None, *, seconds: float = 0) -> MessageClaim | MessageStatus | None:
        now = self.now + timedelta(seconds=seconds)
        with self.database.transaction() as connection:
            step = delivery.start_delivery(connection, message_id or self.message_id, settings=self.settings, now=now)
            self.jobs = jobs_of(connection)
        return step

    def claimed(self, message_id: UUID | None = None, *, seconds: float = 0) -> MessageClaim:
        claimed = self.claim(message_id, seconds=seconds)
        assert isinstance(claimed, MessageClaim)
        return claimed

    def hand_over(self, claimed: MessageClaim, *, timeout_seconds: float = PATIENT_SECONDS) -> Fault | None:
        """Calls the gateway in the last second of the claim, which holds for four times the 5 s of the settings."""
        patient = self.settings.model_copy(update={"message_timeout_seconds": timeout_seconds})
        return message_life.hand_over(claimed, patient, tell_time=lambda: claimed.until - timedelta(seconds=1))

    def hand_over_late(self, claimed: MessageClaim) -> Fault | None:
        """Tries to call the gateway when the claim has run out."""
        return message_life.hand_over(claimed, self.settings, tell_time=lambda: claimed.until)

    def settle(self, claimed: MessageClaim, fault: Fault | None = None, *, seconds: float = 0) -> MessageStatus | None:
        now = self.now + timedelta(seconds=seconds)
        with self.database.transaction() as connection:
            status = delivery.finish_delivery(connection, claimed, fault, settings=self.settings, now=now)
            self.jobs = jobs_of(connection)
        return status

    def change(self, **changes: Any) -> UUID:
        """Push the route again, import and plan it. Returns the new message."""
        with self.database.transaction() as connection:
            return self.plan_route(connection, **{"externalId": "LOAD", "reference": "changed", **changes})

    def row(self, message_id: UUID | None = None) -> Any:
        with self.database.transaction() as connection:
            return message(connection, message_id or self.message_id)

    @property
    def status(self) -> RouteStatus:
        with self.database.transaction() as connection:
            return status_of(connection, self.route_id)


REFUSED = Fault("the gateway did not accept the message")


NO_ANSWER = Fault("the gateway did not answer within 5 s", in_doubt=True)

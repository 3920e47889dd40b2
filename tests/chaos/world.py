"""The world under chaos: companies with trucks, drivers, keys and people; truck stops with prices; a gateway."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from domain.accounts.keys import create_key
from domain.contract.shapes import SCOPES
from domain.database.connections import Connection
from domain.ids import new_id
from domain.lifecycle import Environment, Role
from domain.stations.stations import store_station_rows
from tests.chaos.clients import Clients
from tests.chaos.gateways import Post
from tests.chaos.model import Account, Journey, Model
from tests.chaos.stack import Stack, opened
from tests.chaos.traffic import WAITING_TRUCKS
from tests.factories import DOT, STATIONS, make_fleet, signed_in

_DRIVING_TRUCKS = 15
"""The company with a gateway has so many; the others have a third of them."""
_KEYS = 4


@dataclass(frozen=True, slots=True)
class World:
    """Everybody who uses the service, and the model of what they asked."""

    model: Model
    accounts: list[Account]
    trucks: dict[tuple[UUID, str], UUID]
    """The vehicles by company and unit number."""
    clients: Clients


@contextmanager
def new_world(stack: Stack, post: Post) -> Iterator[World]:
    """Stores everything, and signs the people in."""
    model = Model()
    trucks: dict[tuple[UUID, str], UUID] = {}
    accounts: list[Account] = []
    tokens: dict[UUID | None, str] = {}
    with opened(stack) as database, database.transaction() as connection:
        store_station_rows(connection, STATIONS, now=datetime.now(UTC))
        tokens[None] = signed_in(connection, Role.OPERATOR, None)
        for name, policy in _COMPANIES.items():
            company_id = make_fleet(connection, **policy).company_id
            if name == _WITH_GATEWAY:  # no company may choose an address of ours by itself
                connection.execute(
                    "UPDATE companies SET message_url = %s WHERE id = %s", (post.gateway.url, company_id)
                )
            trucks |= _add_trucks(connection, company_id)
            tokens[company_id] = signed_in(connection, Role.OWNER, company_id)
            accounts += [_account(connection, name, company_id, environment, policy) for environment in Environment]
    for account in accounts:
        count = _DRIVING_TRUCKS if account.has_gateway else _DRIVING_TRUCKS // 3
        model.journeys += [Journey(account, f"D{number}") for number in range(1, count + 1)]
    clients = Clients(stack.urls, model, tokens)
    try:
        clients.sign_in()
        yield World(model, accounts, trucks, clients)
    finally:
        clients.close()


_COMPANIES: dict[str, dict[str, object]] = {
    "Acme": {},
    "Bolt": {},
    "Crane": {"superseding": True},
}
"""The companies and their policies."""
_WITH_GATEWAY = "Bolt"


def _account(
    connection: Connection, name: str, company_id: UUID, environment: Environment, policy: dict[str, object]
) -> Account:
    keys = tuple(
        create_key(
            connection, company_id, DOT, name=f"chaos {number}", environment=environment, scopes=list(SCOPES)
        ).key
        for number in range(_KEYS)
    )
    has_gateway = name == _WITH_GATEWAY and environment is Environment.LIVE
    return Account(name, company_id, environment, keys, bool(policy.get("superseding")), has_gateway)


def _add_trucks(connection: Connection, company_id: UUID) -> dict[tuple[UUID, str], UUID]:
    """The trucks that wait and those that drive, each with a driver of its own."""
    units = [*WAITING_TRUCKS, *(f"D{number}" for number in range(1, _DRIVING_TRUCKS + 1))]
    trucks = {(company_id, unit): new_id() for unit in units}
    for (_, unit), truck in trucks.items():
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number, fuel_tank_capacity_gallons, mpg)"
            " VALUES (%s, %s, %s, 200, 6.5)",
            (truck, company_id, unit),
        )
        connection.execute(
            "INSERT INTO drivers (id, company_id, name) VALUES (%s, %s, %s)", (new_id(), company_id, f"Driver {unit}")
        )
    return trucks

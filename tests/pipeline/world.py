"""Truck stops with prices, and a look at the messages, for the tests of the pipeline."""

from datetime import UTC, datetime
from typing import Any

from domain.messages.due_messages import list_messages
from domain.stations.stations import store_station_rows
from tests.factories import STATIONS, forget_prices
from tests.rows import stored_id
from tests.service import Client, Service


def store_prices(service: Service) -> None:
    """The demo's truck stops, and no others with prices."""
    with service.database.transaction() as connection:
        forget_prices(connection)
        store_station_rows(connection, STATIONS, now=datetime.now(UTC))


def messages_of(client: Client, route_id: str) -> list[Any]:
    with client.service.database.transaction() as connection:
        return [
            message
            for message in list_messages(connection, client.fleet.company_id)
            if message.route_id == stored_id(route_id)
        ]


def give_contacts(client: Client, url: str) -> None:
    """Gives every driver of the company the same address."""
    with client.service.database.transaction() as connection:
        connection.execute("UPDATE drivers SET contact = %s WHERE company_id = %s", (url, client.fleet.company_id))

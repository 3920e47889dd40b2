"""Trips with a link and a plan made by hand, for the tests of the driver's page."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from domain.accounts.tokens import hash_of_token
from domain.database.connections import Connection, Tenant, as_json
from domain.documents import DriverFacts
from domain.driver_page.page import ask_trips
from domain.driver_page.shown_trip import ShownTrip
from domain.ids import new_id
from domain.messages.driver_links import issue_driver_link
from tests.domain.helpers import corrected_by_hand, imported, planned_by_hand, route_row
from tests.factories import JOLIET, NEWARK, PLAN, Fleet

PAGE = "https://drive.example.com"

FACTS: DriverFacts = {
    "lowFuel": False,
    "fuelStops": [
        {
            "heading": "east",
            "road": "I-80 E",
            "exit": "122",
            "town": {"name": "Goshen, IN", "miles": 12.2, "isAhead": False},
            "isOnLeft": False,
            "offRoadMiles": 0.3,
            "wayOut": {"name": "Love's 305", "mile": 160.4, "latitude": 41.7, "longitude": -85.4},
            "priceChange": {"at": "2026-11-21T06:00:00Z", "before": 3.455, "after": 3.655},
            "hours": "24/7",
            "pricedAt": "2026-11-19T12:05:00Z",
        },
        {
            "heading": "east",
            "road": None,
            "exit": None,
            "town": None,
            "isOnLeft": None,
            "offRoadMiles": 2.4,
            "wayOut": {"name": None, "mile": 812.4},
            "priceChange": None,
            "hours": None,
            "pricedAt": None,
        },
    ],
}
"""The facts of the usual plan made by hand."""


class DriverTrip(NamedTuple):
    """A route with its driver, as a link needs it."""

    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID


def trip_of(connection: Connection, tenant: Tenant, route_id: UUID) -> DriverTrip:
    return DriverTrip(*tenant, route_id, route_row(connection, route_id).driver_id)


def driven_trip(
    connection: Connection,
    fleet: Fleet,
    *,
    now: datetime,
    facts: DriverFacts | None = FACTS,
    external_id: str = "LOAD-1",
    **plan: Any,
) -> DriverTrip:
    """A trip from Joliet to Newark whose driver has the plan made by hand."""
    window = {"start": "2026-11-21T14:00:00Z", "end": "2026-11-21T16:00:00Z"}
    stops = [JOLIET, {**NEWARK, "address": "1 Pier Rd", "arrivalWindow": window}]
    route_id = imported(connection, fleet.live, now=now, externalId=external_id, stops=stops)
    planned_by_hand(connection, route_id, now=now, **plan)
    told(connection, route_id, facts)
    arrived(connection, fleet.live, route_id, 0, now)
    connection.execute("UPDATE routes SET status = 'active', arrived_at = %s WHERE id = %s", (now, route_id))
    connection.execute("UPDATE messages SET status = 'sent', retry_at = NULL WHERE route_id = %s", (route_id,))
    return trip_of(connection, fleet.live, route_id)


def corrected_trip(connection: Connection, trip: DriverTrip, *, now: datetime, cause: str, **plan: Any) -> UUID:
    """Gives a trip another plan, whose message is not out yet. Returns its id."""
    corrected_by_hand(connection, trip.route_id, now=now, **plan)
    plan_id: UUID = route_row(connection, trip.route_id).correction_id
    connection.execute("UPDATE plans SET cause = %s WHERE id = %s", (as_json({"kind": cause}), plan_id))
    return plan_id


def at_stations(connection: Connection, trip: DriverTrip) -> list[str]:
    """Makes a station of each fuel stop of the plans. They are retired, so that no other test plans with them."""
    station_ids = [f"D-{new_id().hex}" for _ in PLAN["stops"]]
    for station_id, stop in zip(station_ids, PLAN["stops"], strict=True):
        connection.execute(
            "INSERT INTO stations (station_id, name, latitude, longitude, retired_at) VALUES (%s, %s, %s, %s, now())",
            (station_id, stop["name"], stop["latitude"], stop["longitude"]),
        )
    connection.execute("UPDATE plans SET station_ids = %s WHERE route_id = %s", (station_ids, trip.route_id))
    return station_ids


def offered_choice(connection: Connection, trip: DriverTrip) -> UUID:
    """Gives the trip's plan a choice of another chain that costs $4.10 more. Returns its id."""
    choice_id = new_id()
    connection.execute(
        "INSERT INTO plan_choices (id, company_id, environment, route_id, plan_id, kind, place, document,"
        " station_ids, extra_cents, pump_cents) SELECT %s, company_id, environment, id, plan_id, 'other_chain', 0,"
        " %s, '{}', 410, 410 FROM routes WHERE id = %s",
        (choice_id, as_json(PLAN), trip.route_id),
    )
    return choice_id


def told(connection: Connection, route_id: UUID, facts: DriverFacts | None) -> None:
    connection.execute(
        "UPDATE plans SET driver_facts = %s, timeline = %s, fuel_at = generated_at WHERE route_id = %s",
        (
            as_json(facts) if facts is not None else None,
            as_json([{"stop": 1, "mile": 812.4, "plannedArrival": "2026-11-21T15:00:00Z"}]),
            route_id,
        ),
    )


def arrived(connection: Connection, tenant: Tenant, route_id: UUID, stop: int, at: datetime) -> None:
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at) VALUES (%s, %s, %s, %s, %s)",
        (*tenant, route_id, stop, at),
    )


def halted(
    connection: Connection, trip: DriverTrip, now: datetime, *, has_left: bool, stop: dict[str, Any] = PLAN["stops"][0]
) -> None:
    """The truck has reached the first fuel stop of its plan, which stands at the place of `stop`."""
    visit = {
        "latitude": stop["latitude"],
        "longitude": stop["longitude"],
        "arrivedAt": now.isoformat(),
        "departedAt": now.isoformat() if has_left else None,
    }
    connection.execute("UPDATE routes SET fuel_visits = %s WHERE id = %s", (as_json([visit]), trip.route_id))


def truck_at(
    connection: Connection, tenant: Tenant, truck: UUID, at: datetime, latitude: float, longitude: float
) -> None:
    """Says where the truck was last seen."""
    connection.execute(
        "INSERT INTO tracks (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (tenant.company_id, truck, tenant.environment, at, at, latitude, longitude),
    )


def token_of(connection: Connection, trip: DriverTrip, *, now: datetime) -> str:
    """A fresh token of the trip's page."""
    return issue_driver_link(connection, trip, PAGE, now=now).removeprefix(f"{PAGE}/d/")


def shown(connection: Connection, trip: DriverTrip, *, now: datetime) -> ShownTrip:
    (found,) = ask_trips([hash_of_token(token_of(connection, trip, now=now))], hours=24, now=now).on(connection)
    assert found is not None
    return found.shown()

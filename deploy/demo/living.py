"""The living part of the demo: fills a quarter of history, drives the fleet, and removes the whole demo."""

import json
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from deploy.demo.fleet import Feed, LivingFleet
from deploy.demo.trips import QUARTER
from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.audit.entries import Actor
from domain.database.connections import Connection, Database, Tenant
from domain.database.options import HOUSEKEEPING
from domain.ids import read_id
from domain.lifecycle import Environment
from domain.roads import Roads
from domain.roads.default_roads import default_roads
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from domain.sandbox.demo_fleet import read_demo_fleet, start_demo_fleet
from domain.settings import DEMO_FILE, Settings

HERE = Path(__file__).parent
ACTOR = Actor("fuelroute demo")

_POLICY = Policy(replan_en_route=True, watch_burn=True, driven_lanes=True)
_POLICY_OF_THE_PAST = Policy(replan_en_route=False, watch_burn=False, driven_lanes=False)
"""Past trips are not watched, and most of them have no positions from which a road could be learned."""


_LOOK_SECONDS = 2.0


class Made(NamedTuple):
    """The number of completed trips and of fills that were made."""

    trips: int
    fills: int


def make_history(
    database: Database, company_id: UUID, settings: Settings, *, now: datetime, span: timedelta = QUARTER
) -> Made | None:
    """Makes the fleet with its history and its present trips, all in one transaction. None if it is there already."""
    roads = default_roads(settings.valhalla_url)
    with database.transaction(limits=HOUSEKEEPING) as connection:
        if read_demo_fleet(connection, company_id) is not None:
            return None
        start_demo_fleet(connection, company_id)
        import_vehicles(connection, company_id, HERE / "fleet_vehicles.csv")
        import_drivers(connection, company_id, HERE / "fleet_drivers.csv")
        made = _fill(connection, company_id, settings, roads, now=now, span=span)
    return made


def _fill(
    connection: Connection, company_id: UUID, settings: Settings, roads: Roads, *, now: datetime, span: timedelta
) -> Made:
    from deploy.demo.card_file import import_card_files
    from deploy.demo.office import make_office, make_statements
    from deploy.demo.past import History
    from deploy.demo.present import begin_present_trips, note_recent_roads
    from deploy.demo.trips import past_trips, present_trips

    tenant = Tenant(company_id, Environment.LIVE)
    set_policy(connection, company_id, _POLICY_OF_THE_PAST, ACTOR)
    past = past_trips(now=now, span=span)
    history = History(connection, tenant, roads, settings, now=now)
    done = history.complete([trip for of_truck in past for trip in of_truck])
    fills = import_card_files(connection, tenant, done, settings, ACTOR.name, now=now)
    history.learn_burns()
    set_policy(connection, company_id, _POLICY, ACTOR)
    make_office(connection, tenant, history.fleet, HERE / "stations.csv", settings, ACTOR, now=now)
    make_statements(connection, company_id, settings, now=now)
    note_recent_roads(history, done)
    begin_present_trips(history, present_trips(past, now=now))
    return Made(len(done), fills)


def drive_fleet(settings: Settings) -> None:
    """Drives the fleet of the demo in the data folder until the demo is removed. Waits for a fleet that is not there
    yet."""
    with Database.of(settings, pool_size=1) as database:
        while True:
            demo = read_demo(settings)
            if "removed_at" in demo:
                return
            company_id = read_id("cmp", str(demo.get("company_id", "")))
            if company_id is not None and _has_fleet(database, company_id):
                LivingFleet(database, company_id, Feed(settings.http_url(), demo["live_key"]), settings).drive()
            time.sleep(_LOOK_SECONDS)


def _has_fleet(database: Database, company_id: UUID) -> bool:
    with database.transaction() as connection:
        return read_demo_fleet(connection, company_id) is not None


def demo_file(settings: Settings) -> Path:
    return settings.data / DEMO_FILE


def read_demo(settings: Settings) -> dict[str, Any]:
    """The demo's file; empty where there is none that can be read."""
    try:
        read = json.loads(demo_file(settings).read_text())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}

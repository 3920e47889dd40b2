"""Takes the demo away for good, and keeps in mind that somebody did."""

import csv
import json
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from deploy.demo.living import ACTOR, HERE, demo_file, read_demo
from deploy.embedded import write_private
from domain.database.connections import Connection, Transaction
from domain.database.statements import Scalar
from domain.encoding import utc_text
from domain.errors import FuelrouteError
from domain.housekeeping.erasure import erase_company
from domain.ids import read_id, shown_id
from domain.settings import Settings
from domain.stations.stations import set_stations_retired

_FLEETS = Scalar(UUID, "SELECT company_id FROM demo_fleets ORDER BY company_id")
_COMPANIES = Scalar(UUID, "SELECT id FROM companies")
_IN_SERVICE = Scalar(
    str, "SELECT station_id FROM stations WHERE station_id = ANY(%s) AND retired_at IS NULL ORDER BY station_id"
)


class NoDemo(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("there is no demo here")


class Removed(NamedTuple):
    company: str
    """Its id as people see it."""
    stations: int
    """The truck stops of the demo that were retired: none while another company may use them."""


def demo_company(connection: Connection, settings: Settings) -> UUID:
    """The company of this data folder's demo, else of another folder's in the database. Raises NoDemo."""
    named = read_id("cmp", str(read_demo(settings).get("company_id", "")))
    found = [*(one for one in _COMPANIES.all(connection) if one == named), *_FLEETS.all(connection)]
    if not found:
        raise NoDemo
    return found[0]


def remove_demo(transaction: Transaction, company_id: UUID, settings: Settings, *, now: datetime) -> Removed:
    """Erases the demo's company with its trucks and history. Its truck stops, whose prices are invented, are retired
    where no other company is there to use them. Safe to run again. A later `up --demo` does not bring the demo back."""
    shown = shown_id("cmp", company_id)
    if settings.data.is_dir():
        removed = {"company_id": shown, "removed_at": utc_text(now)}
        write_private(demo_file(settings), json.dumps(removed, indent=2) + "\n")
    with transaction() as connection:  # first: without its company nobody finds a removal that broke off
        is_alone = set(_COMPANIES.all(connection)) <= {company_id}
        stations = _IN_SERVICE.all(connection, (_station_ids(),)) if is_alone else []
        if stations:
            set_stations_retired(connection, stations, ACTOR.with_reason("The demo was removed"), now=now)
    erase_company(transaction, company_id, now=now)
    return Removed(shown, len(stations))


def _station_ids() -> list[str]:
    with (HERE / "stations.csv").open(newline="", encoding="utf-8") as file:
        return [row["station_id"] for row in csv.DictReader(file)]

"""`fuelroute vehicles trips` writes the trips of a company's trucks, and what was made of each."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

from domain.database.connections import Database
from tests.deploy.commands import Cli
from tests.domain.burn.trips import driven, learn
from tests.factories import make_fleet


def test_the_trips_of_a_company_are_listed_and_written(cli: Cli, database: Database, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        for number, days in enumerate((10, 7, 4)):
            driven(connection, fleet, fleet.live, now - timedelta(days=days), seed=number)
        driven(connection, fleet, fleet.live, now - timedelta(days=1), miles=300, shown=lambda *_: 50.0)
        learn(connection, fleet, fleet.live, now)
    of_company = ("vehicles", "trips", "--company", fleet.shown_company_id)

    rows = cli(*of_company, "--json").document["data"]
    assert [row["not_believed"] for row in rows] == ["its fuel levels show no burn", None, None, None]
    assert {(row["unit_number"], row["figure"]) for row in rows} == {("101", "learned")}
    assert cli(*of_company, "--environment", "sandbox", "--json").document["data"] == []
    file = tmp_path / "trips.csv"
    assert cli(*of_company, "--csv", str(file)).out.splitlines()[-1] == "4 trips"
    with file.open(newline="") as lines:
        assert [row["mpg"] for row in csv.DictReader(lines)] == [str(row["mpg"] or "") for row in rows]
    (truck,) = cli("vehicles", "list", "--company", fleet.shown_company_id, "--search", "101", "--json").document[
        "data"
    ]
    assert truck["burn"]["kind"] == "learned"
    assert [trip["route_id"] for trip in truck["burn"]["trips"]] == [row["route_id"] for row in rows[1:]]

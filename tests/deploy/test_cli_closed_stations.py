"""Stations are closed and opened by commands."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.database.connections import Database
from domain.ids import new_id
from tests.deploy.commands import NO_COMPANY, Cli
from tests.factories import Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def station_id(database: Database) -> str:
    """A station of this test alone, since stations belong to no company."""
    one = f"S-{new_id().hex}"
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO stations (station_id, name, latitude, longitude) VALUES (%s, 'S', 1, 1)", (one,)
        )
    return one


def test_a_station_is_closed_for_a_company_and_opened_again(
    cli: Cli, fleet: Fleet, station_id: str, now: datetime
) -> None:
    company = ("--company", fleet.shown_company_id)
    day = now + timedelta(days=1)
    until = f"{day:%Y-%m-%d}T14:00:00-06:00"

    done = cli("stations", "close", station_id, "--until", until, *company, "--reason", "no diesel", "--json").document

    assert done == {
        "station_id": station_id,
        "company_id": fleet.shown_company_id,
        "closed_until": f"{day:%Y-%m-%d}T20:00:00Z",
        "new_plans": 0,
    }
    assert [one["reason"] for one in listed(cli, station_id, *company)] == ["no diesel"]
    assert listed(cli, station_id) == []
    assert cli("stations", "open", station_id, *company).status == 0
    assert listed(cli, station_id, *company) == []
    assert "is not closed for this company" in cli("stations", "open", station_id, *company).sentence


def listed(cli: Cli, station_id: str, *company: str) -> list[Any]:
    rows = cli("stations", "closed", *company, "--json").document["data"]
    return [row for row in rows if row["station_id"] == station_id]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--until", "2099-01-01T00:00:00"), "with an offset"),
        (("--until", "2020-01-01T00:00:00Z"), "over already"),
        (("--until", "2099-01-01T00:00:00Z"), "retire the station instead"),
        (("--until", "2099-01-01T00:00:00Z", "--company", NO_COMPANY), "company"),
    ],
)
def test_a_closure_that_makes_no_sense_is_refused(
    cli: Cli, station_id: str, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in cli("stations", "close", station_id, *arguments).sentence
    assert listed(cli, station_id) == []


def test_a_station_that_nobody_knows_is_not_closed(cli: Cli) -> None:
    assert "there is no station" in cli("stations", "close", "nowhere", "--until", "2099-01-01T00:00:00Z").sentence

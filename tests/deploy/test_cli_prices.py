"""Prices that wait for a person, at the command line: units by options, and unusual prices."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from domain.database.connections import Database
from tests.deploy.commands import Cli
from tests.factories import forget_prices

HEADER = "station_id,name,brand,city,state,latitude,longitude,retail_price"


@pytest.fixture(autouse=True)
def _prices_are_gone(database: Database) -> Iterator[None]:
    yield
    with database.transaction() as connection:
        forget_prices(connection)


def one_station(folder: Path, price: str) -> tuple[str, str]:
    """The id of a station, and the file that gives its price."""
    station, path = uuid4().hex, folder / "one.csv"
    path.write_text(f"{HEADER}\n{station},A,Pilot,Gary,IN,41.6,-87.3,{price}\n")
    return station, str(path)


def price_of(cli: Cli, station: str) -> float | None:
    price: float | None = json.loads(cli("stations", "show", station, "--json").out)["retail_price"]
    return price


def test_an_unusual_price_waits_until_somebody_has_looked(cli: Cli, tmp_path: Path) -> None:
    station, file = one_station(tmp_path, "0.05")

    told = cli("stations", "import", file, "--json")
    assert told.status == 2
    assert "the station is stored without this price" in json.loads(told.out)["rejected"][0]["message"]
    assert price_of(cli, station) is None

    assert cli("stations", "import", file, "--believe").status == 0
    assert price_of(cli, station) == 0.05


def test_the_unit_of_a_file_is_an_option(cli: Cli, tmp_path: Path) -> None:
    station, file = one_station(tmp_path, "1.057")

    assert cli("stations", "import", file, "--currency", "USD", "--unit", "litre").status == 0
    assert round(price_of(cli, station) or 0, 3) == 4.001
    refused = cli("stations", "import", file, "--unit", "barrel")
    assert (refused.status, "no unit of fuel that is known" in refused.err) == (1, True)

"""The guide to truck roads runs as it is written, on a small made extract."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from domain.database.connections import Connection, Database
from domain.roads import Point
from domain.settings import Settings
from ingress.http.serving import free_port
from tests.conftest import own_database
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.roads.made_extract import EAST_EXIT, WEST_EXIT, interstate_map
from tests.factories import make_fleet

pytestmark = pytest.mark.servers

GUIDE = Path(__file__).parents[2] / "deploy" / "roads.md"
NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)

NORTH_OF_BRIDGE, SOUTH_OF_BRIDGE = Point(41.25, EAST_EXIT), Point(41.05, EAST_EXIT)
WESTERN, DALLAS = Point(41.2, WEST_EXIT), Point(32.78, -96.8)
STATION = (
    "INSERT INTO stations (station_id, name, latitude, longitude, state) VALUES"
    " ('in', 'Inside', 41.0, -96.2, 'NE'), ('out', 'Outside', 32.78, -96.8, 'TX')"
)


def stop(name: str, place: Point) -> dict[str, Any]:
    return {"name": name, "latitude": place.latitude, "longitude": place.longitude}


def plan(connection: Connection, fleet: Any, external_id: str, *stops: dict[str, Any]) -> None:
    route_id = imported(connection, fleet.live, now=NOW, externalId=external_id, reference=external_id, stops=[*stops])
    planned_by_hand(connection, route_id, now=NOW)


def test_the_guide_runs_as_it_is_written(settings: Settings, tmp_path: Path) -> None:
    interstate_map().write(tmp_path / "map.osm.pbf")
    with own_database("roads_guide") as database:  # it looks at the plans and stations of all companies
        said, compared = run_guide(settings, database, tmp_path)
    assert "map.osm.pbf (0.0 MB): the build needs about 1 MB of disk" in said
    assert "built in" in said
    assert "1 of 2 stations lie outside of the extract: 1 in TX" in said
    assert "1 of 4 stops of live routes lie outside of the extract: Dallas (LEAVES)" in said
    assert "LEAVES: valhalla refused: No suitable edges near location" in said
    assert "1 road compared" in said
    assert "roads.npz: 139 nodes" in said

    round_the_bridge, leaves = compared
    assert round_the_bridge["external_id"] == "BRIDGE"
    assert round_the_bridge["valhalla_miles"] > 40  # by NE 92, US 6 and I 80: 13.8 miles are closed to it
    (apart,) = round_the_bridge["apart"]
    assert apart["state"] in ("NE", "IA")
    assert leaves["valhalla_miles"] is None


def run_guide(settings: Settings, database: Database, folder: Path) -> tuple[str, list[Any]]:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        connection.execute(STATION)
        plan(connection, fleet, "BRIDGE", stop("North", NORTH_OF_BRIDGE), stop("South", SOUTH_OF_BRIDGE))
        plan(connection, fleet, "LEAVES", stop("Yard", WESTERN), stop("Dallas", DALLAS))
    blocks = re.findall(r"^```bash\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    environment = {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "HOME": str(folder),
        "COMPANY": fleet.shown_company_id,
        "COLUMNS": "200",
        "PBF": "map.osm.pbf",
        "PORT": str(free_port("127.0.0.1", 0)),
        "FUELROUTE_DATABASE_URL": database.url,
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
    }
    script = "trap 'kill $(jobs -p); wait' EXIT\n" + "".join(blocks)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split()), json.loads((folder / "compared.json").read_text())

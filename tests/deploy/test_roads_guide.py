"""The guide to truck roads runs as it is written, on a small made extract."""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deploy.cli.output import screen
from deploy.stack import TwoValhallas, reporting_supervisor, require_one_valhalla, start_roads
from domain.database.connections import Connection, Database
from domain.roads import Point
from domain.roads.valhalla import reason_of_silence
from domain.settings import Settings
from tests.command_line import forked_fuelroute
from tests.conftest import own_database
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.roads.made_extract import EAST_EXIT, WEST_EXIT, interstate_map
from tests.factories import make_fleet
from tests.ports import own_port
from tests.service import eventually

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
    with own_database("roads_guide") as database:  # it looks at the stations of all companies
        with forked_fuelroute(tmp_path) as path:
            said = run_guide(settings, database, tmp_path, path)
        up_serves_the_built_roads(settings.model_copy(update={"database_url": database.url}), tmp_path)
    assert "map.osm.pbf (0.0 MB): the build needs about 1 MB of disk" in said
    assert "built in" in said
    assert "1 of 2 stations lie outside of the extract: 1 in TX" in said
    assert "1 of 4 stops of live routes lie outside of the extract: Dallas (LEAVES)" in said
    # Valhalla goes by NE 92, US 6 and I 80: 13.8 miles are closed to the truck.
    row = said.partition("BRIDGE")[2].partition("LEAVES")[0]
    assert re.match(r"\W+\d+ mi, \d+ min\W+[4-9]\d mi, .* mile \d+ to \d+ in (NE|IA)", row), row
    assert "LEAVES: valhalla refused: No suitable edges near location" in said
    assert "1 road compared" in said
    assert "roads.npz: 139 nodes" in said


def up_serves_the_built_roads(settings: Settings, folder: Path) -> None:
    data = folder / ".fuelroute"
    (data / "logs").mkdir()
    ports = {"console_port": 0, "roads_port": 0}
    running = settings.model_copy(update={"data": data, "roads_pbf": folder / "map.osm.pbf", **ports})
    supervisor = reporting_supervisor(screen)
    try:
        url = start_roads(running, data, supervisor, screen)["valhalla_url"]
        eventually(lambda: reason_of_silence(url, 1.0), lambda reason: reason is None, seconds=900)
    finally:
        supervisor.stop()
    assert "are built already" in (data / "logs" / "roads.log").read_text()


def test_one_valhalla_is_enough() -> None:
    extract = Path("map.osm.pbf")
    require_one_valhalla(Settings(roads_pbf=extract))
    require_one_valhalla(Settings(valhalla_url="http://valhalla:8002"))
    with pytest.raises(TwoValhallas, match="unset one of them"):
        require_one_valhalla(Settings(roads_pbf=extract, valhalla_url="http://valhalla:8002"))


def run_guide(settings: Settings, database: Database, folder: Path, path: str) -> str:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        connection.execute(STATION)
        plan(connection, fleet, "BRIDGE", stop("North", NORTH_OF_BRIDGE), stop("South", SOUTH_OF_BRIDGE))
        plan(connection, fleet, "LEAVES", stop("Yard", WESTERN), stop("Dallas", DALLAS))
    blocks = re.findall(r"^```bash\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    environment = {
        "PATH": path,
        "HOME": str(folder),
        "COMPANY": fleet.shown_company_id,
        "COLUMNS": "200",
        "PBF": "map.osm.pbf",
        "PORT": str(own_port()),
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
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())

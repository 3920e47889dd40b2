"""Files of routes are read in the layouts that people have (tests/cases/routes)."""

from pathlib import Path
from zoneinfo import ZoneInfo

from domain.files.route_files import open_route_file
from domain.files.route_rows import FileRoute

CASES = Path(__file__).parents[2] / "cases" / "routes"


def read(name: str, mapping: dict[str, str]) -> dict[str, FileRoute]:
    with open_route_file(CASES / name, mapping, ZoneInfo("America/Chicago")) as file:
        return {one.external_id: one for one in file.routes}


def test_samsaras_upload_of_routes() -> None:
    routes = read(
        "samsara_upload.csv",
        {
            "externalId": "Route Name",
            "driverName": "Assigned Driver Username",
            "unitNumber": "Assigned Vehicle Name",
            "scheduledStart": "Stop Arrival Time",
            "stop_windowStart": "Stop Arrival Time",
            "stop_name": "Stop Name",
            "stop_latitude": "Latitude",
            "stop_longitude": "Longitude",
            "stop_address": "Full Address",
        },
    )

    first = routes["LOAD-1"].route
    assert first is not None
    assert f"{first.scheduled_start:%d %H:%M}" == "01 14:40"
    assert [stop.name for stop in first.stops] == ["Joliet yard", "Toledo dock"]
    assert "Line 5 cannot be read" in routes["LOAD-2"].fault


def test_stops_listed_by_time() -> None:
    routes = read(
        "dispatch_by_time.csv",
        {
            "externalId": "Load #",
            "unitNumber": "Truck",
            "driverName": "Driver",
            "scheduledStart": "Start",
            "timeZone": "TZ",
            "stop_latitude": "Lat",
            "stop_longitude": "Lng",
        },
    )

    first, second = routes["L-1"].route, routes["L-2"].route
    assert first is not None
    assert second is not None
    assert [stop.name for stop in first.stops] == ["Joliet", "Toledo", "Newark"]
    assert [f"{one.scheduled_start:%d %H:%M}" for one in (first, second)] == ["01 14:00", "01 14:00"]

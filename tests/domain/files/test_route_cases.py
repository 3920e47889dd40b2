"""Files of routes are read in the layouts that people have (tests/cases/routes)."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from domain.files.csvfiles import UnreadableFile
from domain.files.route_files import open_route_file
from domain.files.route_rows import FileRoute

CASES = Path(__file__).parents[2] / "cases" / "routes"


def read(name: str, mapping: dict[str, str] | None = None) -> dict[str, FileRoute]:
    with open_route_file(CASES / name, mapping or {}, ZoneInfo("America/Chicago")) as file:
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


def ways(routes: dict[str, FileRoute]) -> dict[str, tuple[str, list[str]]]:
    """The start of each route that is read, and the names of its stops."""
    read = {name: one.route for name, one in routes.items() if one.route is not None}
    return {
        name: (f"{route.scheduled_start:%d %H:%M}", [stop.name for stop in route.stops]) for name, route in read.items()
    }


def windows(one: FileRoute) -> list[str]:
    assert one.body is not None
    return [stop["arrivalWindow"]["start"] for stop in one.body["stops"] if "arrivalWindow" in stop]


def test_a_report_of_loads_is_read_by_the_names_that_dispatchers_use() -> None:
    routes = read("load_report.csv")

    assert ways(routes) == {"5001": ("01 14:00", ["Acme Foods", "Toledo dock", "Port Cold"])}
    assert routes["5002"].fault == "Load Status: line 6 says 'Canceled': a canceled load is not imported"
    assert "Pickup Lon: the place is in Asia: is a minus missing?" in routes["5003"].fault


def test_a_day_and_its_time_may_stand_in_two_columns() -> None:
    routes = read("pickup_and_delivery.csv")

    assert ways(routes) == {"L-1": ("01 14:00", ["Joliet, IL", "Newark, NJ"])}
    assert windows(routes["L-1"]) == ["2026-12-02T09:30:00-05:00"]


def test_orders_that_are_canceled_by_a_code_of_their_tms_are_refused() -> None:
    routes = read("tmw_statuses.csv")

    assert list(ways(routes)) == ["7001"]
    assert routes["7002"].fault == "ord_status: line 3 says 'CAN': a canceled load is not imported"


def test_a_window_of_all_time_is_none() -> None:
    routes = read("tmw_stops.csv")

    assert windows(routes["7001"]) == ["2026-12-01T08:00:00-06:00", "2026-12-01T14:00:00-06:00"]
    assert (routes["7002"].fault, windows(routes["7002"])) == ("", [])


def test_a_day_with_midnight_behind_it_has_the_time_of_its_other_column() -> None:
    """The routes started at midnight, and their windows opened then."""
    routes = read("days_with_midnight.csv", {"scheduledStart": "Appt Date"})

    assert {name: one[0] for name, one in ways(routes).items()} == {"D-1": "01 14:00", "D-2": "02 20:00"}
    assert windows(routes["D-1"]) == ["2026-12-01T08:00:00-06:00", "2026-12-01T15:00:00-06:00"]
    assert routes["D-3"].fault, "a day alone is no start, as in a spreadsheet"


def test_stops_go_by_their_numbers_and_start_with_the_first_departure() -> None:
    assert ways(read("stops_by_number.csv")) == {
        "L1": ("01 14:00", ["Joliet", "Newark"]),
        "L2": ("01 15:00", ["Gary", "Erie"]),
    }


def test_the_first_appointment_is_the_start_if_a_person_says_so() -> None:
    routes = read("appointments.csv", {"scheduledStart": "Appt Date"})

    assert ways(routes) == {
        "5001": ("01 14:00", ["Acme Foods", "Port Cold"]),
        "5002": ("01 16:00", ["Gary Mill", "Erie Dock"]),
    }
    assert windows(routes["5001"]) == ["2026-12-01T08:00:00-06:00", "2026-12-02T09:30:00-06:00"]


def test_longitudes_that_are_positive_in_the_west_are_refused() -> None:
    mapping = {"externalId": "movement_id", "unitNumber": "tractor_id", "driverName": "driver_code"}

    route = read("mcleod_stops.csv", {**mapping, "scheduledStart": "sched_arrive_early"})["M1"]

    assert route.fault.count("is a minus missing?") == 2


@pytest.mark.parametrize(
    ("name", "lacking", "advice"),
    [
        ("appointments.csv", "scheduledStart", "scheduledStart may be 'Appt Date'"),
        ("amazon_relay_trips.csv", "externalId, scheduledStart, the stops", "externalId may be 'Trip ID' or 'Load ID'"),
        ("three_ids.csv", "externalId, scheduledStart", "externalId may be 'Shipment ID' or 'Load ID' or 'Trip ID'"),
        ("loadsmart_loads.csv", "scheduledStart, stop1_latitude", "addresses are not looked up"),
        ("optimoroute_orders.csv", "scheduledStart, unitNumber", "may be 'Date' or 'Time window from'"),
        ("mcleod_stops.csv", "externalId, scheduledStart", "unitNumber may be 'tractor_id'; driverName may be"),
        ("samsara_upload.csv", "externalId, scheduledStart", "externalId may be 'Route Name'; scheduledStart may be"),
    ],
)
def test_a_refusal_asks_with_the_columns_of_the_file(name: str, lacking: str, advice: str) -> None:
    with pytest.raises(UnreadableFile) as raised:
        read(name)

    assert f"lacks columns for {lacking}" in str(raised.value)
    assert advice in str(raised.value)

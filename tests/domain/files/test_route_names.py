"""Further names of the columns of routes: each means one thing, and what is in doubt is asked."""

from datetime import date, time
from pathlib import Path

import pytest

from domain.files.csvfiles import UnreadableFile
from domain.files.route_layout import ColumnsNotTold, TableField, fields_of, layout_of
from domain.files.route_names import meaning_of
from tests.domain.files.test_route_files import LONG, WIDE, csv_file, excel_file, read

STOPS = ["Location Name", "Lat", "Lng"]
LOADS = ["Load #", "Truck", "Driver", "Planned Start", *STOPS]
PAIR = ["Pickup Name", "Pickup Lat", "Pickup Lng", "Delivery Name", "Delivery Lat", "Delivery Lng"]
JOLIET, NEWARK = ["Joliet", "41.4", "-88.1"], ["Newark", "40.7", "-74.1"]
LOAD = ["A", "101", "Ann Lee", "2026-12-01 08:00"]


def of_columns(*names: str, **mapping: str) -> dict[str, str]:
    """The columns of the fields."""
    layout = layout_of(list(names), mapping)
    return {str(place): layout.name_of(place) for place in layout.columns}


@pytest.mark.parametrize(
    "name",
    [
        *("Load", "Load #1", "Unit", "Truck ID", "Vehicle ID", "Driver ID", "Route", "Route Name", "VIN #", "Name"),
        *("Pickup", "Delivery", "PU #", "Pickup Date", "Time Window From", "Appointment", "Status", "Stop", "x" * 200),
    ],
)
def test_a_name_that_may_mean_several_things_means_nothing(name: str) -> None:
    assert meaning_of(name) is None


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *(("Load #", "externalId"), ("load_no.", "externalId"), ("Order Nbr", "externalId"), ("PRO #", "externalId")),
        *(("Unit #", "unitNumber"), ("TRACTOR", "unitNumber"), ("Truck No", "unitNumber"), ("Driver 1", "driverName")),
    ],
)
def test_a_number_is_written_in_many_ways(name: str, field: str) -> None:
    assert meaning_of(name) == (field, "", 0, 0)


def test_a_file_with_the_names_of_our_fields_is_read_as_before() -> None:
    more = ("Load #", "Truck", "Location Name", "Address", "Seq", "Appt Start", "Lat", "Pickup Lat")

    assert of_columns(*WIDE, *more) == of_columns(*WIDE)
    assert of_columns(*LONG, *more) == of_columns(*LONG)
    assert of_columns(*LONG[1:], *more, externalId="Load #") == of_columns(*LONG[1:], "Load #", externalId="Load #")


def test_a_mapping_goes_before_further_names() -> None:
    found = of_columns(*LOADS, "Order #", "Route", externalId="Route")

    assert (found["externalId"], found["unitNumber"]) == ("Route", "Truck")
    assert "driverName" not in of_columns(*LOADS, "Driver Code", driverExternalId="Driver Code")


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        ([*LOADS, "Order Number"], "externalId may be 'Load #' or 'Order Number'"),
        ([*LOADS, "Tractor"], "unitNumber may be 'Truck' or 'Tractor'"),
        ([*LOADS, "Truck"], "unitNumber may be 'Truck (1)' or 'Truck (2)'"),
        ([*LOADS, "Seq", "Sequence"], "stop_sequence may be 'Seq' or 'Sequence'"),
        ([*LOADS, *PAIR], "may be those of the row, or those of pickups and deliveries"),
        ([*LOADS[:4], *PAIR, "Pickup 2 Lat", "Delivery 2 Lat"], "several pickups and several deliveries is not told"),
        ([*LOADS[:4], *PAIR, "Stop 1 Name", "Stop 1 Lat"], "the order of numbered stops and others is not told"),
        ([*LOADS[:3], "Start Time", *STOPS], "scheduledStart may be 'Start Time'"),
    ],
)
def test_what_is_in_doubt_is_asked(names: list[str], asked: str) -> None:
    with pytest.raises(UnreadableFile) as raised:
        layout_of(names, {})

    assert asked in str(raised.value)


def test_a_person_is_asked_where_the_answers_suffice() -> None:
    names = [*LOADS[:3], "Pickup Time", *STOPS, "Trip #"]

    with pytest.raises(ColumnsNotTold) as raised:
        layout_of(names, {})
    with pytest.raises(ColumnsNotTold) as lacking:
        layout_of(names[:-2], {})

    others = ["Load #", "Trip #"]
    assert raised.value.asked == {"scheduledStart": ["Pickup Time", *others], "externalId": others}
    assert lacking.value.asked == {}
    assert of_columns(*names, scheduledStart="Pickup Time", externalId="Trip #")["externalId"] == "Trip #"


def test_deliveries_come_behind_all_pickups() -> None:
    found = of_columns(*LOADS[:4], *PAIR, "Pickup 2 Name", "Pickup 2 Lat", "Pickup 2 Lng")

    assert (found["stop2_name"], found["stop3_name"]) == ("Pickup 2 Name", "Delivery Name")


def test_rows_of_stops_may_repeat_the_origin_and_the_destination() -> None:
    found = of_columns(*LOADS, "Origin", "Destination City")

    assert (found["stop_name"], "stop1_name" in found) == ("Location Name", False)


@pytest.mark.parametrize(
    ("column", "status", "is_canceled"),
    [
        ("ord_status", "CAN", True),
        ("lgh_outstatus", "CAN", True),
        ("Order Status", "ICO", True),
        ("Status", "V", True),
        ("Load Status", "CANCEL", True),
        ("Load Execution Status", "Rejected", True),
        ("Load Status", "Tender declined", True),
        ("ord_status", "PLN", False),
        ("Status", "A", False),
        ("Status", "Can be delivered early", False),
    ],
)
def test_a_load_is_canceled_in_the_words_and_codes_of_a_tms(
    tmp_path: Path, column: str, status: str, is_canceled: bool
) -> None:
    heading = ["Load #", column, "Truck", "Driver", "Planned Start", *PAIR]

    (route,), _ = read(csv_file(tmp_path, heading, [LOAD[0], status, *LOAD[1:], *JOLIET, *NEWARK]))

    assert ("a canceled load is not imported" in route.fault) is is_canceled


def test_a_load_is_refused_if_one_of_its_rows_is_canceled(tmp_path: Path) -> None:
    path = csv_file(tmp_path, [*LOADS, "Stop Status"], [*LOAD, *JOLIET, "open"], [*LOAD, *NEWARK, "CANCELLED"])

    (route,), layout = read(path)

    assert route.fault == "Stop Status: line 3 says 'CANCELLED': a canceled load is not imported"
    assert layout is not None
    assert layout.unused == []


@pytest.mark.parametrize(
    ("column", "status", "is_finished"),
    [
        ("Load Status", "Delivered", True),
        ("Status", "DELIVERED_PENDING_POD", True),
        ("Trip Stage", "Completed", True),
        ("ord_status", "CMP", True),
        ("Status", "D", True),  # McLeod's delivered; P is planned, A available
        ("Status", "P", False),
        ("Status", "Invoiced", True),
        ("Status", "Partially paid", True),
        ("Load Status", "POD received", True),
        ("Load Status", "In Transit", False),
        ("Load Status", "Loading completed", False),
        ("Load Status", "To be delivered", False),
        ("Load Status", "Delivering", False),
        ("Billing", "Paid", False),
    ],
)
def test_a_load_is_finished_in_the_words_of_a_tms(tmp_path: Path, column: str, status: str, is_finished: bool) -> None:
    """A truck that is back at the first stop of a delivered load would get a plan and a message for it."""
    heading = ["Load #", column, "Truck", "Driver", "Planned Start", *PAIR]

    (route,), _ = read(csv_file(tmp_path, heading, [LOAD[0], status, *LOAD[1:], *JOLIET, *NEWARK]))

    assert ("a finished load is not imported" in route.fault) is is_finished


@pytest.mark.parametrize(
    ("column", "first", "second", "fault"),
    [
        ("Stop Status", "Completed", "Completed", "line 2 says 'Completed': a finished load is not imported"),
        ("Stop Status", "Completed", "Open", ""),
        ("Stop Status", "Completed", "", ""),
        ("Load Status", "Completed", "", "line 2 says 'Completed': a finished load is not imported"),
        ("Stop Status", "Completed", "Canceled", "line 3 says 'Canceled': a canceled load is not imported"),
    ],
)
def test_a_load_is_finished_if_all_its_rows_are(
    tmp_path: Path, column: str, first: str, second: str, fault: str
) -> None:
    """The first stops of a load under way are completed."""
    path = csv_file(tmp_path, [*LOADS, column], [*LOAD, *JOLIET, first], [*LOAD, *NEWARK, second])

    (route,), _ = read(path)

    assert route.fault == (f"{column}: {fault}" if fault else "")


def test_a_load_whose_deliveries_stand_in_several_rows_is_refused(tmp_path: Path) -> None:
    """Each row would be a route that lacks the other delivery."""
    erie, gary = ["Erie", "42.1", "-80.0"], ["Gary", "41.6", "-87.3"]
    one, other = [*LOAD, *JOLIET, *NEWARK], [*LOAD, *JOLIET, *erie]
    whole = ["B", *LOAD[1:], *gary, *erie]

    routes, _ = read(csv_file(tmp_path, [*LOADS[:4], *PAIR], one, whole, other, whole))

    told = "Load #: several rows have this load, so none tells all of its stops: write a row for each stop"
    assert [route.fault for route in routes] == [told, "", told, "externalId: the route is already on line 3"]


def test_a_load_with_a_row_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, [*LOADS[:4], *PAIR], [*LOAD, *JOLIET, *NEWARK])
    with path.open("a") as file:
        file.write(f"{','.join(LOAD)},Joliet,41.4,-88.1,Erie, PA,42.1,-80.0\n")

    first, second = read(path)[0]

    assert "several rows have this load" in first.fault
    assert "11 cells" in second.fault


@pytest.mark.parametrize(
    ("numbers", "stops"),
    [
        ("812 17", ["Joliet", "Newark"]),  # of stores
        ("2 1", ["Newark", "Joliet"]),
        ("A B", ["Joliet", "Newark"]),
        ("1 3", "Stop No.: the route has no stop number 2"),
        ("1 1", "Stop No.: two stops of the route have the same number"),
    ],
)
def test_numbers_that_count_from_one_order_the_stops(tmp_path: Path, numbers: str, stops: object) -> None:
    one, other = numbers.split()
    path = csv_file(tmp_path, [*LOADS, "Stop No."], [*LOAD, *JOLIET, one], [*LOAD, *NEWARK, other])

    (route,), _ = read(path)

    assert route.body is not None
    assert (route.fault or [stop["name"] for stop in route.body["stops"]]) == stops


@pytest.mark.parametrize(
    ("places", "fault"),
    [
        ([*JOLIET, "", "", "", *NEWARK], ""),
        ([*JOLIET, *NEWARK, "", "", ""], "stops: the load needs a pickup and a delivery"),
        (["", "", "", "", "", "", *NEWARK], "stops: the load needs a pickup and a delivery"),
    ],
)
def test_a_load_has_a_pickup_and_a_delivery(tmp_path: Path, places: list[str], fault: str) -> None:
    stops = [f"{what} {part}" for what in ("Pickup 1", "Pickup 2", "Delivery") for part in ("Name", "Lat", "Lng")]

    (route,), _ = read(csv_file(tmp_path, [*LOADS[:4], *stops], [*LOAD, *places]))

    assert route.fault[: len(fault) or None] == fault


@pytest.mark.parametrize(
    ("day", "clock", "start"),
    [
        ("12/1/2026", "8:00 AM", "2026-12-01T08:00:00-06:00"),
        ("Dec 1, 2026", "0800", "2026-12-01T08:00:00-06:00"),
        ("46357", "0.3333333333", "2026-12-01T08:00:00-06:00"),
        ("12/01/2026 09:00", "08:00", "2026-12-01T09:00:00-06:00"),
        ("12/01/2026", "08:00 - 12:00", "Planned Start Date: Expected an RFC 3339 date-time"),
        ("12/01/2026", "", "Planned Start Date: Expected an RFC 3339 date-time"),
    ],
)
def test_days_and_times_apart_are_read_as_people_write_them(tmp_path: Path, day: str, clock: str, start: str) -> None:
    names = ["Load #", "Truck", "Driver", "Planned Start Date", "Planned Start Time", *PAIR]

    (route,), _ = read(csv_file(tmp_path, names, ["A", "101", "Ann Lee", day, clock, *JOLIET, *NEWARK]))

    assert route.body is not None
    assert start in (route.fault or route.body["scheduledStart"])


@pytest.mark.parametrize(
    ("clock", "start"),
    [(time(8), "2026-12-01T08:00:00-06:00"), (0.5, "2026-12-01T12:00:00-06:00"), (None, "Expected an RFC 3339")],
)
def test_a_day_in_excel_has_the_time_beside_it_or_none(tmp_path: Path, clock: object, start: str) -> None:
    """A day alone is midnight in a spreadsheet, which is no time that anybody wrote."""
    names = ["Load #", "Truck", "Driver", "Planned Start Date", None, "Planned Start Time", *PAIR]
    row = [5001, 101, "Ann Lee", date(2026, 12, 1), None, clock, "Joliet", 41.4, -88.1, "Newark", 40.7, -74.1]

    (route,), _ = read(excel_file(tmp_path, ["Dispatch board"], [], names, row, ["Total", None]))

    assert route.body is not None
    assert start in (route.fault or route.body["scheduledStart"])


def test_stops_with_one_day_and_two_times_are_no_single_start(tmp_path: Path) -> None:
    names = ["Load #", "Truck", "Driver", "Trip Start Date", "Trip Start Time", *STOPS]
    rows = [
        ["A", "101", "Ann Lee", "12/01/2026", clock, *place] for clock, place in (("8:00", JOLIET), ("9:30", NEWARK))
    ]

    (route,), _ = read(csv_file(tmp_path, names, *rows))

    assert "Trip Start Date: line 3 says something else than line 2" in route.fault
    assert "map stop_windowStart to this column, too" in route.fault


def test_the_console_says_the_same_by_fields() -> None:
    names = [*LOADS[:3], "Appt Date", "Appt Time", *STOPS, "Rate"]

    assert fields_of([*LOADS, "Stop #", "Rate"])[-5:] == [
        "stop_name",
        "stop_latitude",
        "stop_longitude",
        "stop_number",
        "",
    ]
    chosen = [*fields_of(names)[:3], "scheduledStart+stop_windowStart", "", *fields_of(names)[5:]]
    layout = layout_of(names, {}, chosen)
    assert layout == layout_of(names, {"scheduledStart": "Appt Date"})
    assert layout.clocks[TableField(None, "scheduledStart")] == 4

"""The demo's CSV files hold what the README beside them says, and enough stations to plan any long trip."""

import csv
import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from domain.roads import Point
from domain.roads.highway_graph import FREEWAY, HighwayGraph
from domain.roads.highways import HIGHWAYS_FILE, HighwayRoads

pytestmark = pytest.mark.slow

DEMO = Path(__file__).parents[2] / "deploy" / "demo"
MILES_PER_DEGREE = 69.09
CORRIDOR_MILES = 5  # the default furthest detour
CORRIDOR_DEGREES = np.array([0.1, 0.15])  # more than these miles, north and east, at 49 degrees
LONGEST_GAP_MILES = 140  # a full default tank goes 1,040 miles above its reserve (160 gal at 6.5 mpg)

Row = dict[str, str]
Floats = npt.NDArray[np.float64]


@cache
def rows(name: str) -> list[Row]:
    with (DEMO / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def header(name: str) -> str:
    return (DEMO / name).read_text(encoding="utf-8").split("\n", 1)[0]


def points() -> Floats:
    return np.array([[float(row["latitude"]), float(row["longitude"])] for row in rows("stations.csv")])


@cache
def freeway_segments() -> tuple[Floats, Floats]:
    graph = HighwayGraph.load(HIGHWAYS_FILE)
    tails = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.first))
    freeway = graph.through == FREEWAY
    return graph.nodes[tails[freeway]], graph.nodes[graph.head[freeway]]


def miles_to_segments(point: Floats, starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Distance from one point to each segment, and where on it (0 to 1) its nearest place lies."""
    scale = np.array([MILES_PER_DEGREE, MILES_PER_DEGREE * np.cos(np.radians(point[0]))])
    a, b = (starts - point) * scale, (ends - point) * scale
    along = b - a
    length = np.maximum((along**2).sum(axis=1), 1e-12)
    share = np.clip(-(a * along).sum(axis=1) / length, 0, 1)
    return np.hypot(*(a + along * share[:, None]).T), share


def test_the_files_have_the_columns_the_imports_read() -> None:
    # Stations leave out priced_at, so that the time of import counts.
    columns = {
        "stations.csv": "station_id,name,brand,address,city,state,latitude,longitude,retail_price",
        "vehicles.csv": "unit_number,vin,license_plate,make,model,year,fuel_tank_capacity_gallons,mpg",
        "drivers.csv": "name,display_name,external_id,contact",
        "deals.csv": "station_id,brand,discount_per_gallon,net_price",
        "taxes.csv": "state,rate_per_gallon,surcharge_per_gallon,valid_from",
    }

    assert {name: header(name) for name in columns} == columns


def test_there_are_many_stations_and_no_duplicates() -> None:
    stations = rows("stations.csv")

    assert len(stations) >= 220
    assert len({row["state"] for row in stations}) >= 40
    for field in ("station_id", "name"):
        assert max(Counter(row[field] for row in stations).values()) == 1
    assert len(np.unique(points(), axis=0)) == len(stations)
    assert max(Counter((row["brand"], row["address"], row["state"]) for row in stations).values()) == 1


def test_each_station_is_well_formed() -> None:
    for row in rows("stations.csv"):
        assert re.fullmatch(rf"[A-Z]{{2}}-{row['state']}-\d{{4}}", row["station_id"]), row
        assert row["name"] == f"{row['brand']} {row['city']}"
        assert re.fullmatch(r"(I|US)-\d+[EW]? (Exit \d+[A-Z]?|at US-\d+)", row["address"]), row
        assert re.fullmatch(r"\d\.\d{3}", row["retail_price"]), row
        assert 3.199 <= float(row["retail_price"]) <= 5.499, row
        assert 24 < float(row["latitude"]) < 49.5, row
        assert -125 < float(row["longitude"]) < -66, row


def test_each_station_lies_within_five_miles_of_a_freeway() -> None:
    starts, ends = freeway_segments()
    south, west = np.ascontiguousarray((np.minimum(starts, ends) - CORRIDOR_DEGREES).T)
    north, east = np.ascontiguousarray((np.maximum(starts, ends) + CORRIDOR_DEGREES).T)

    def miles_to_freeway(point: Floats) -> float:
        latitude, longitude = point
        near = (south <= latitude) & (latitude <= north) & (west <= longitude) & (longitude <= east)
        return float(miles_to_segments(point, starts[near], ends[near])[0].min(initial=np.inf))

    far = {
        row["station_id"]: miles
        for row, point in zip(rows("stations.csv"), points(), strict=True)
        if (miles := miles_to_freeway(point)) > CORRIDOR_MILES
    }

    assert far == {}


@pytest.mark.parametrize(
    "places",
    [
        pytest.param([(41.49, -88.11), (40.70, -74.16)], id="Joliet to Newark"),
        pytest.param([(41.49, -88.11), (38.57, -121.57)], id="Joliet to Sacramento"),
        pytest.param([(35.02, -89.91), (34.89, -117.00)], id="Memphis to Barstow"),
        pytest.param([(41.57, -87.40), (33.67, -84.34)], id="Gary to Atlanta"),
        pytest.param([(32.60, -96.69), (37.69, -97.33), (39.13, -94.49)], id="Dallas to Kansas City by Wichita"),
        pytest.param([(25.94, -80.21), (42.19, -71.15)], id="Miami to Boston"),
        pytest.param([(34.07, -117.56), (29.80, -95.02)], id="Los Angeles to Houston"),
        pytest.param([(29.80, -95.02), (30.30, -81.75)], id="Houston to Jacksonville"),
        pytest.param([(39.10, -94.78), (39.78, -105.10)], id="Kansas City to Denver"),
        pytest.param([(41.60, -87.30), (47.47, -121.72)], id="Chicago to Seattle"),
        pytest.param([(34.30, -118.50), (48.15, -122.19)], id="Los Angeles to Seattle"),
    ],
)
def test_a_long_trip_always_has_a_station_ahead(places: list[tuple[float, float]]) -> None:
    line = HighwayRoads().through([Point(*place) for place in places]).line
    steps = np.diff(line, axis=0) * MILES_PER_DEGREE
    steps[:, 1] *= np.cos(np.radians((line[:-1, 0] + line[1:, 0]) / 2))
    lengths = np.hypot(*steps.T)
    miles = np.concatenate([[0.0], np.cumsum(lengths)])

    passed = [0.0, float(miles[-1])]
    for point in points():
        away, share = miles_to_segments(point, line[:-1], line[1:])
        nearest = int(away.argmin())
        if away[nearest] <= CORRIDOR_MILES:
            passed.append(float(miles[nearest] + share[nearest] * lengths[nearest]))

    assert np.diff(np.sort(passed)).max() <= LONGEST_GAP_MILES


def test_prices_differ_enough_that_choosing_matters() -> None:
    prices: dict[str, list[float]] = {}
    for row in rows("stations.csv"):
        prices.setdefault(row["state"], []).append(float(row["retail_price"]))
    mean = {state: float(np.mean(values)) for state, values in prices.items()}

    assert max(mean["TX"], mean["OK"], mean["MO"], mean["MS"]) + 0.3 < min(
        mean["CA"], mean["PA"], mean["WA"], mean["IL"]
    )
    for state in ("TX", "OH", "PA", "CA", "GA", "NE"):
        assert max(prices[state]) - min(prices[state]) > 0.2


def test_one_of_the_eight_trucks_has_the_default_tank_and_mpg() -> None:
    trucks = rows("vehicles.csv")

    assert len(trucks) == 8
    for field in ("unit_number", "vin", "license_plate"):
        assert len({row[field] for row in trucks}) == 8
    assert [row["unit_number"] for row in trucks if not row["mpg"]] == ["4108"]
    for row in trucks:
        assert re.fullmatch(r"[A-HJ-NPR-Z0-9]{17}", row["vin"]), row
        assert check_digit(row["vin"]) == row["vin"][8], row
        assert 2015 <= int(row["year"]) <= 2026
        assert bool(row["mpg"]) == bool(row["fuel_tank_capacity_gallons"])
        if row["mpg"]:
            assert 6.1 <= float(row["mpg"]) <= 7.4
            assert 200 <= float(row["fuel_tank_capacity_gallons"]) <= 300


def check_digit(vin: str) -> str:
    """49 CFR 565.15: each character's value times its place's weight, modulo 11, 10 written X."""
    values = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "12345678123457923456789"), strict=True))
    weights = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
    total = sum((values.get(c) or int(c)) * weight for c, weight in zip(vin, weights, strict=True))
    return "0123456789X"[total % 11]


def test_eight_drivers_are_reached_through_the_local_outbox() -> None:
    drivers = rows("drivers.csv")

    assert len(drivers) == 8
    for field in ("name", "display_name", "external_id"):
        assert len({row[field] for row in drivers}) == 8
        assert all(row[field] for row in drivers)
    assert all(row["contact"] == "" for row in drivers)


def test_each_deal_names_a_known_station_or_brand_and_beats_retail() -> None:
    retail = {row["station_id"]: float(row["retail_price"]) for row in rows("stations.csv")}
    brands = {row["brand"] for row in rows("stations.csv")}
    deals = rows("deals.csv")

    discounts = [row for row in deals if row["discount_per_gallon"]]
    net_prices = [row for row in deals if row["net_price"]]

    assert len(discounts) >= 3
    assert len(net_prices) >= 3
    assert len(discounts) + len(net_prices) == len(deals)
    for row in discounts:
        assert row["brand"] in brands
        assert row["station_id"] == ""
        assert 0.05 <= float(row["discount_per_gallon"]) <= 0.60
    for row in net_prices:
        assert row["brand"] == ""
        assert 2.5 <= float(row["net_price"]) < retail[row["station_id"]]


def test_only_virginia_has_a_surcharge() -> None:
    taxes = {row["state"]: row for row in rows("taxes.csv")}

    assert {state for state, row in taxes.items() if float(row["surcharge_per_gallon"])} == {"VA"}
    assert (taxes["VA"]["rate_per_gallon"], taxes["VA"]["surcharge_per_gallon"]) == ("0.32", "0.14")
    assert {row["state"] for row in rows("stations.csv")} <= set(taxes)


def test_the_readme_says_that_prices_are_invented() -> None:
    readme = (DEMO / "README.md").read_text(encoding="utf-8")

    assert "prices and deals are invented" in readme
    assert "Coordinates are approximate" in readme

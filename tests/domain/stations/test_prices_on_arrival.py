"""Offers to a truck that arrives later: the prices are those that a plan made on arrival would read."""

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.planning.schedule import arrivals_along
from domain.stations.corridor_offers import Corridor, StationPlaces, offers_along
from domain.stations.stored_prices import apply_coming_prices
from tests.domain.planning.plans import meridian
from tests.factories import Fleet, make_fleet
from tests.repeatable import examples

NOW = datetime(2026, 10, 30, 15, tzinfo=UTC)
"""Two days before the clocks change in the United States."""
HOUR = timedelta(hours=1)
ROAD = meridian(500.0)
STATIONS = [("A1", "A", "TX", 3.5), ("A2", "A", "OK", 3.6), ("B1", "B", "TX", 3.7), ("N1", None, None, None)]
ZONES = ["America/Chicago", "UTC", "America/Havana", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Kiritimati"]


@pytest.fixture
def fleet(connection: Connection) -> Fleet:
    """A company whose road has four stations; the last has no price."""
    connection.execute("DELETE FROM stations")
    connection.execute("DELETE FROM fuel_taxes")
    connection.execute("DELETE FROM coming_prices")
    for number, (station_id, brand, state, price) in enumerate(STATIONS):
        connection.execute(
            "INSERT INTO stations (station_id, name, brand, state, latitude, longitude, retail_price, priced_at)"
            " VALUES (%s, %s, %s, %s, %s, -100, %s, %s)",
            (station_id, station_id, brand, state, 31.0 + number, price, NOW if price else None),
        )
    return make_fleet(connection)


def read(connection: Connection, fleet: Fleet, now: datetime, arrival: datetime | None = None) -> Corridor:
    return offers_along(
        connection,
        fleet.company_id,
        ROAD,
        5.0,
        StationPlaces(),
        now=now,
        arrivals=(lambda miles: [arrival] * len(miles)) if arrival is not None else None,
    )


def quote(connection: Connection, fleet: Fleet, station_id: str, since: datetime, price: float) -> None:
    connection.execute(
        "INSERT INTO quotes (company_id, station_id, effective_at, net_price, profile) VALUES (%s, %s, %s, %s, 'loves')"
        " ON CONFLICT DO NOTHING",
        (fleet.company_id, station_id, since, price),
    )


def coming(connection: Connection, station_id: str, since: datetime, price: float) -> None:
    connection.execute(
        "INSERT INTO coming_prices (station_id, effective_at, retail_price) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (station_id, since, price),
    )


def deal(
    connection: Connection,
    fleet: Fleet,
    place: tuple[str | None, str | None],
    discount: float,
    days: tuple[date | None, date | None],
) -> None:
    connection.execute(
        "INSERT INTO deals (company_id, station_id, brand, discount_per_gallon, valid_from, valid_to)"
        " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (fleet.company_id, *place, discount, *days),
    )


def tax(connection: Connection, state: str, first_day: date, rate: float) -> None:
    connection.execute(
        "INSERT INTO fuel_taxes (state, valid_from, rate_per_gallon) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (state, first_day, rate),
    )


class Change(NamedTuple):
    kind: str
    station: int
    hours: float
    cents: int


HOURS = st.integers(-8, 2 * 24 * 4).map(lambda quarters: quarters / 4)
CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from(["retail", "quote", "deal", "brand", "tax"]),
        st.integers(0, 3),
        HOURS,
        st.integers(1, 99),
    ),
    min_size=4,
    max_size=12,
)


def store(connection: Connection, fleet: Fleet, change: Change) -> None:
    station_id, brand, state, _ = STATIONS[change.station]
    since, price = NOW + change.hours * HOUR, 3 + change.cents / 100
    days = since.date(), (since + change.cents * HOUR).date()
    if change.kind == "retail":
        coming(connection, station_id, max(since, NOW + HOUR / 4), price)
    elif change.kind == "quote":
        quote(connection, fleet, station_id, since, price)
    elif change.kind == "tax":
        tax(connection, state or "OK", days[0], change.cents / 100)
    else:
        of_brand = change.kind == "brand" and brand is not None
        place = (None, brand) if of_brand else (station_id, None)
        deal(connection, fleet, place, change.cents / 100, days)


def dated(connection: Connection, fleet: Fleet, moment: datetime) -> dict[str, tuple[float, float | None]]:
    """The prices and taxes that a plan made at that moment reads."""
    with connection.transaction(force_rollback=True):
        apply_coming_prices(connection, now=moment)
        return prices_of(read(connection, fleet, moment))


def prices_of(corridor: Corridor) -> dict[str, tuple[float, float | None]]:
    assert all(one.parts is not None and one.parts.net_price == one.net_price for one in corridor.offers)
    return {one.station.station_id: (one.net_price, one.tax_per_gallon) for one in corridor.offers}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20), deadline=None)
@given(CHANGES, st.integers(-30, 60), st.sampled_from(ZONES))
def test_prices_are_those_that_a_plan_made_on_arrival_would_read(
    connection: Connection, fleet: Fleet, changes: list[Change], minutes: int, zone: str
) -> None:
    """The truck arrives up to an hour before a change, or up to half an hour after it. Within an hour after the
    arrival the highest price counts."""
    arrival = max(NOW, NOW + changes[0].hours * HOUR - timedelta(minutes=minutes))
    with connection.transaction(force_rollback=True):
        connection.execute("UPDATE companies SET time_zone = %s WHERE id = %s", (zone, fleet.company_id))
        for change in changes:
            store(connection, fleet, change)
        expected = dated(connection, fleet, arrival)
        quarters = [arrival.replace(minute=0) + quarter * HOUR / 4 for quarter in range(9)]
        for later in (one for one in quarters if arrival < one <= arrival + HOUR):
            for station_id, price in dated(connection, fleet, later).items():
                if station_id in expected and price[0] > expected[station_id][0]:
                    expected[station_id] = price

        assert prices_of(read(connection, fleet, NOW, arrival)) == expected


def test_without_arrivals_the_prices_of_now_count(connection: Connection, fleet: Fleet) -> None:
    coming(connection, "A1", NOW + HOUR, 3.0)
    quote(connection, fleet, "A2", NOW + HOUR, 3.0)

    assert {id: price for id, (price, _) in prices_of(read(connection, fleet, NOW)).items()} == {
        "A1": 3.5,
        "A2": 3.6,
        "B1": 3.7,
    }


def test_only_changed_stations_tell_a_change(connection: Connection, fleet: Fleet) -> None:
    coming(connection, "A1", NOW + HOUR, 3.9)
    quote(connection, fleet, "B1", NOW + 2 * HOUR, 3.1)

    found = {one.station.station_id: one.price_change for one in read(connection, fleet, NOW, NOW + 9 * HOUR).offers}

    assert found["A2"] is None
    rise, fall = found["A1"], found["B1"]
    assert rise is not None
    assert fall is not None
    assert (rise.before, rise.after, fall.before, fall.after) == (3.5, 3.9, 3.7, 3.1)


def test_prices_of_another_company_change_nothing(connection: Connection, fleet: Fleet) -> None:
    other = make_fleet(connection)
    quote(connection, other, "A1", NOW + HOUR, 2.0)
    deal(connection, other, (None, "A"), 0.5, (NOW.date() + timedelta(days=1), None))

    assert read(connection, fleet, NOW, NOW + 48 * HOUR).offers == read(connection, fleet, NOW).offers


def test_a_price_that_is_fresh_today_counts_for_a_truck_that_comes_when_it_is_eight_days_old(
    connection: Connection, fleet: Fleet
) -> None:
    connection.execute("UPDATE stations SET priced_at = %s WHERE priced_at IS NOT NULL", (NOW - timedelta(days=6),))
    quote(connection, fleet, "N1", NOW - timedelta(days=6), 3.3)

    assert len(read(connection, fleet, NOW, NOW + timedelta(days=2)).offers) == 4


def test_stations_without_a_price_on_arrival_are_left_out_and_counted(connection: Connection, fleet: Fleet) -> None:
    connection.execute("UPDATE stations SET retail_price = NULL WHERE station_id = 'B1'")
    connection.execute(
        "INSERT INTO deals (company_id, station_id, net_price, valid_to) VALUES (%s, 'B1', 3.0, %s)",
        (fleet.company_id, NOW.date()),
    )

    today, tomorrow = read(connection, fleet, NOW, NOW), read(connection, fleet, NOW, NOW + 24 * HOUR)

    assert (len(today.offers), today.prices.stations_left_out) == (3, {"without_price": 1})
    assert (len(tomorrow.offers), tomorrow.prices.stations_left_out) == (2, {"without_price": 2})


def test_each_pass_of_a_station_has_the_price_of_its_own_arrival(connection: Connection, fleet: Fleet) -> None:
    """At 50 miles an hour the truck is at A1, A2 and B1 after 1.4, 2.8 and 4.1 hours."""
    for station_id in ("A1", "A2", "B1"):
        coming(connection, station_id, NOW + 3 * HOUR, 3.0)

    offers = offers_along(
        connection,
        fleet.company_id,
        ROAD,
        5.0,
        StationPlaces(),
        now=NOW,
        arrivals=lambda miles: arrivals_along(ROAD, NOW, [], miles)[0],
    ).offers

    assert [one.net_price for one in offers] == [3.5, 3.6, 3.0]


@pytest.mark.parametrize("arrival", [NOW - timedelta(days=400), datetime.max.replace(tzinfo=UTC)])
def test_an_arrival_in_the_past_or_at_the_end_of_time_has_a_price(
    connection: Connection, fleet: Fleet, arrival: datetime
) -> None:
    coming(connection, "A1", NOW + HOUR, 3.0)

    prices = prices_of(read(connection, fleet, NOW, arrival))

    assert prices["A1"][0] == (3.5 if arrival < NOW else 3.0)

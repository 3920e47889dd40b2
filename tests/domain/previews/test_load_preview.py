"""A load is previewed as it would be planned now, and nothing of it is stored."""

from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.checking import Invalid
from domain.contract.shapes import FuelPlan
from domain.database.connections import Connection, Tenant
from domain.ids import new_id, shown_id
from domain.lifecycle import ChoiceKind, Environment
from domain.previews.preview_tasks import NoSuchRoute
from domain.previews.shapes import PolicyOverrides
from domain.routes.plans.choices import choose
from domain.routes.plans.stored_choices import menu_of
from domain.settings import Settings
from tests.domain.helpers import imported
from tests.domain.previews.loads import Previews, load
from tests.domain.routes.journey import Journey
from tests.domain.routes.trip import Trip
from tests.factories import DOT, JOLIET, NEWARK, Fleet, make_fleet
from tests.jobs import jobs_of


@pytest.fixture
def previews(connection: Connection, settings: Settings, fleet: Fleet, now: datetime) -> Previews:
    return Previews(connection, settings, fleet.live, now)


def plan_of(trip: Trip) -> Any:
    row = trip.connection.execute(
        "SELECT document FROM plans WHERE route_id = %s ORDER BY generated_at DESC", (trip.route_id,)
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("environment", list(Environment))
def test_a_route_is_previewed_with_the_plan_that_it_gets_at_that_moment(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, environment: Environment
) -> None:
    tenant = Tenant(fleet.company_id, environment)
    trip = Trip(connection, fleet, settings, now, tenant, planned=False)
    previews = Previews(connection, settings, tenant, trip.now)

    preview = previews.of(routeId=shown_id("rte", trip.route_id)).answer
    with_its_truck = previews.of(routeId=shown_id("rte", trip.route_id), vehicle={"unitNumber": "101"}).answer
    trip.plan()

    assert preview.fuel_plan == msgspec.convert({"status": "planned", **plan_of(trip)}, FuelPlan)
    assert preview.environment == environment
    assert preview.vehicle.unit_number == "101"
    assert (with_its_truck.stops, with_its_truck.fuel_plan) == (preview.stops, preview.fuel_plan)


def test_a_route_that_waits_is_previewed_as_if_its_truck_stood_at_the_first_stop(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live, planned=False)
    waiting = imported(
        connection, fleet.live, now=trip.now, start=trip.now, stops=[JOLIET, NEWARK], vehicle={"unitNumber": "102"}
    )
    previews = Previews(connection, settings, fleet.live, trip.now)

    by_id = previews.of(routeId=shown_id("rte", waiting), vehicle={"fuelPercent": 40}).answer
    by_stops = previews.of(**load(vehicle={"unitNumber": "102", "fuelPercent": 40})).answer

    assert by_id.fuel_plan == by_stops.fuel_plan
    assert [one.name for one in by_id.stops] == ["Joliet terminal", "Port Newark"]


OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "reservePercent": st.sampled_from([5.0, 20.0]),
        "endFuelPercent": st.sampled_from([15.0, 40.0]),
        "minPurchaseGallons": st.sampled_from([10.0, 60.0]),
        "stopCost": st.sampled_from([0.0, 75.0]),
        "maxDetourMiles": st.sampled_from([1.0, 10.0]),
        "maxStops": st.sampled_from([1, 4]),
        "objective": st.sampled_from(["pump", "tax-adjusted"]),
        "tripsBelowReservePercent": st.sampled_from([5.0, 100.0]),
        "leftoverValuePerGallon": st.sampled_from([0.0, 2.5]),
    },
)


@hypothesis_settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OVERRIDES)
def test_values_of_the_policy_count_as_if_the_company_had_set_them(
    previews: Previews, connection: Connection, overrides: dict[str, Any]
) -> None:
    wanted = msgspec.structs.asdict(msgspec.convert(overrides, PolicyOverrides))
    other = make_fleet(connection, **wanted)

    preview = previews.of(**load(policy=overrides)).answer
    as_set = previews.of(tenant=other.live, **load()).answer

    assert as_set.fuel_plan == preview.fuel_plan
    assert as_set.policy == preview.policy


def test_a_preview_writes_nothing(previews: Previews, connection: Connection, now: datetime) -> None:
    route_id = imported(connection, previews.tenant, now=now, stops=[JOLIET, NEWARK])
    written = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_xact_user_tables"
    before = connection.execute(written).fetchone()

    previews.of(**load(policy={"reservePercent": 10}))
    previews.of(routeId=shown_id("rte", route_id))

    assert connection.execute(written).fetchone() == before


def test_the_answer_adds_up(previews: Previews) -> None:
    answer = previews.of(**load(line=True)).answer
    plan = answer.fuel_plan

    assert plan is not None
    assert plan.total_distance_miles == answer.distance_miles
    assert sum(one.dollars for one in answer.states) == pytest.approx(plan.total_cost)
    assert sum(one.gallons_bought for one in answer.states) == pytest.approx(plan.total_gallons)
    assert sum(one.miles for one in answer.states) == pytest.approx(answer.distance_miles, abs=0.1)
    assert sum(one.gallons_burned for one in answer.states) == pytest.approx(answer.gallons_burned, abs=0.1)
    assert [one.state for one in answer.states] == ["IL", "IN", "OH", "PA", "NJ"]
    left = 0.4 * 200 + plan.total_gallons - answer.gallons_burned
    assert answer.end_fuel_percent == pytest.approx(100 * left / 200, abs=0.1)
    assert answer.cost_per_mile == pytest.approx(
        plan.average_price_per_gallon * answer.gallons_burned / answer.distance_miles, abs=0.001
    )
    assert answer.arrival is not None
    assert answer.hours == pytest.approx((answer.arrival - answer.departure).total_seconds() / 3600, abs=0.01)
    assert answer.driving_hours < (answer.hours or 0)
    assert answer.alternatives
    assert all(one.extra_cost >= 0 for one in answer.alternatives)
    assert answer.simple_ways[0].name == "this plan"
    assert isinstance(answer.line, list)


def test_each_default_is_said(previews: Previews) -> None:
    answer = previews.of(stops=[{"town": "Joliet, IL", "address": "3000 Centerpoint Way"}, NEWARK]).answer

    assumed = {one.field: one.text for one in answer.assumed}
    assert assumed["vehicle.fuelTankCapacityGallons"] == "200 gallons, the default"
    assert assumed["vehicle.mpg"] == "6.5 miles a gallon, the default"
    assert assumed["vehicle.fuelPercent"] == "50 %, the level that the company's policy assumes"
    assert assumed["scheduledStart"] == "the truck leaves now"
    assert assumed["stops[0].town"] == "the middle of Joliet, IL counts, at 41.525, -88.083"
    assert assumed["stops[0].address"].startswith("not looked up")
    assert answer.stops[0].name == "Joliet, IL"


def test_what_is_given_is_not_assumed(previews: Previews) -> None:
    given = {"fuelTankCapacityGallons": 150, "mpg": 7.1, "fuelGallons": 75}
    answer = previews.of(**load(vehicle=given)).answer

    assert not [one for one in answer.assumed if one.field.startswith("vehicle")]
    assert (answer.vehicle.fuel_tank_capacity_gallons, answer.vehicle.mpg, answer.vehicle.fuel_percent) == (
        150,
        7.1,
        50,
    )


def test_the_level_of_a_truck_of_the_fleet_is_its_own(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live, planned=False)
    previews = Previews(connection, settings, fleet.live, trip.now)

    answer = previews.of(**load(vehicle={"unitNumber": "101"})).answer
    in_sandbox = previews.of(tenant=fleet.sandbox, **load(vehicle={"unitNumber": "101"})).answer

    assert answer.vehicle.fuel_percent == 40
    assert "by the truck's reading" in {one.field: one.text for one in answer.assumed}["vehicle.fuelPercent"]
    assert in_sandbox.vehicle.fuel_percent == 50


def test_a_foreign_route_or_truck_is_as_one_that_never_existed(
    previews: Previews, connection: Connection, fleet: Fleet, now: datetime
) -> None:
    foreign = make_fleet(connection)
    connection.execute("UPDATE vehicles SET unit_number = 'T-9' WHERE id = %s", (foreign.trucks[0],))
    theirs = imported(connection, foreign.live, now=now, vehicle={"unitNumber": "T-9"})
    rehearsed = imported(connection, fleet.sandbox, now=now)
    for route_id in (
        shown_id("rte", theirs),
        shown_id("rte", rehearsed),
        shown_id("rte", new_id()),
        "rte_x",
        "nonsense",
    ):
        with pytest.raises(NoSuchRoute):
            previews.of(routeId=route_id)
    faults = []
    for unit_number in ("T-9", "never was"):
        with pytest.raises(Invalid) as invalid:
            previews.of(**load(vehicle={"unitNumber": unit_number}))
        faults.append(str(invalid.value))
    assert faults[0] == faults[1] == "vehicle.unitNumber: No one vehicle of the fleet has it"


def test_a_trip_that_cannot_be_driven_says_where(previews: Previews, connection: Connection) -> None:
    connection.execute("UPDATE stations SET retired_at = now()")
    answer = previews.of(**load()).answer

    assert answer.fuel_plan is None
    assert answer.infeasible is not None
    assert answer.infeasible.from_mile == 0
    assert answer.gallons_burned > 100
    assert answer.hours is not None
    assert (answer.alternatives, answer.simple_ways, answer.cost_per_mile) == ([], [], None)


def test_limits_that_no_plan_keeps_are_told(previews: Previews) -> None:
    answer = previews.of(**load(policy={"endFuelPercent": 99})).answer
    assert [one.limit for one in answer.relaxed] == ["endGallons"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"stops": [{"town": "Nowhere at all"}, NEWARK]}, "stops[0].town: No town 'Nowhere at all' is known"),
        ({"stops": [{"town": "Springfield"}, NEWARK]}, "stops[0].town: 'Springfield' fits"),
        ({"stops": [JOLIET, {"latitude": -40, "longitude": 175}, JOLIET]}, "stops: Expected at most 5,000 miles"),
        ({"vehicle": {"fuelGallons": 201}}, "vehicle.fuelGallons: Expected at most the tank's 200 gallons"),
        (
            {"vehicle": {"unitNumber": "101", "vin": "1XKAD49X0CJ000102"}},
            "vehicle: `unitNumber` and `vin` name different",
        ),
    ],
)
def test_what_cannot_be_previewed_is_refused_with_its_field(
    previews: Previews, changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(Invalid) as invalid:
        previews.of(**load(**changes))
    assert str(invalid.value).startswith(fault)


@pytest.mark.parametrize("start", ["2001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_any_start_is_taken(previews: Previews, start: str) -> None:
    answer = previews.of(**load(scheduledStart=start)).answer
    assert answer.fuel_plan is not None
    assert answer.departure >= previews.now


def test_a_trip_of_no_miles_is_a_plan_without_stops(previews: Previews) -> None:
    answer = previews.of(**load(stops=[JOLIET, JOLIET])).answer
    assert answer.fuel_plan is not None
    assert (answer.fuel_plan.stops, answer.distance_miles, answer.cost_per_mile) == ([], 0, None)


@pytest.mark.parametrize(("hour", "rate"), [(5, 0.5), (7, 0.9)])
def test_the_tax_is_that_of_the_quarter_by_the_companys_clock(
    previews: Previews, connection: Connection, hour: int, rate: float
) -> None:
    """At 5:00 UTC it is still December in Chicago."""
    zone = "UPDATE companies SET time_zone = 'America/Chicago' WHERE id = %s"
    connection.execute(zone, (previews.tenant.company_id,))
    connection.execute("DELETE FROM fuel_taxes WHERE state = 'IL'")
    connection.execute(
        "INSERT INTO fuel_taxes (state, valid_from, rate_per_gallon, surcharge_per_gallon)"
        " VALUES ('IL', '2000-01-01', 0.5, 0), ('IL', '2098-01-01', 0.9, 0)"
    )
    answer = previews.of(**load(scheduledStart=f"2098-01-01T0{hour}:00:00Z")).answer
    assert next(one.tax_per_gallon for one in answer.states if one.state == "IL") == rate


def test_miles_of_no_member_of_ifta_leave_the_tax_known(
    previews: Previews, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = {one.state for one in previews.of(**load()).answer.states} - {"IN"}
    connection.execute("DELETE FROM fuel_taxes")
    connection.execute(
        "INSERT INTO fuel_taxes (state, valid_from, rate_per_gallon) SELECT unnest(%s::text[]), '2020-01-01', 0.5",
        (list(states),),
    )
    assert previews.of(**load()).answer.tax_dollars is None

    monkeypatch.setattr("domain.previews.load_preview.NO_MEMBERS", frozenset({"IN"}))
    answer = previews.of(**load()).answer
    known = [one.tax_dollars for one in answer.states if one.tax_dollars is not None]
    assert len(known) == len(answer.states) - 1
    assert answer.tax_dollars == pytest.approx(sum(known))


@pytest.mark.parametrize("said", ["NULL", "'Somewhere'"])
def test_a_station_whose_state_is_not_known_sells_in_the_state_of_its_place(
    previews: Previews, connection: Connection, said: str
) -> None:
    connection.execute("DELETE FROM fuel_taxes")
    connection.execute(
        "INSERT INTO fuel_taxes (state, valid_from, rate_per_gallon) SELECT unnest(%s::text[]), '2020-01-01', 0.5",
        (["IL", "IN", "OH", "PA", "NJ"],),
    )
    before = previews.of(**load()).answer
    assert before.tax_dollars is not None

    connection.execute(f"UPDATE stations SET state = {said}")

    answer = previews.of(**load()).answer
    assert (answer.states, answer.tax_dollars) == (before.states, before.tax_dollars)


def test_a_road_past_too_many_truck_stops_is_refused(previews: Previews, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.domain.previews.loads.MOST_PASSES", 20)
    with pytest.raises(Invalid, match=r"policy\.maxDetourMiles: The road passes"):
        previews.of(**load(policy={"maxDetourMiles": 100}))


def test_a_preview_of_a_route_on_its_way_keeps_the_choice_of_its_driver(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    previews = Previews(connection, settings, fleet.live, now)
    journey = Journey(connection, fleet, settings, now, live=True, menus=True)
    choice = next(
        one for one in menu_of(connection, journey.tenant, journey.route.plan_id) if one.kind == ChoiceKind.OTHER_CHAIN
    )

    def first_stop_and_assumption() -> tuple[str, str | None]:
        answer = previews.of(now=journey.now, routeId=shown_id("rte", journey.route_id)).answer
        assert answer.fuel_plan is not None
        assumed = {one.field: one.text for one in answer.assumed}
        return answer.fuel_plan.stops[0].name, assumed.get("choice")

    cheapest, none = first_stop_and_assumption()
    choose(connection, journey.tenant, journey.route_id, choice.id, DOT, now=journey.now)
    journey.run(jobs_of(connection))
    kept, assumed = first_stop_and_assumption()
    assert (kept, none) == (choice.document["stops"][0]["name"], None)
    assert assumed is not None
    assert assumed.startswith("the driver keeps what he has chosen: another chain")

    connection.execute("UPDATE stations SET retail_price = 4.9 WHERE station_id = %s", (choice.station_ids[0],))
    again, given_up = first_stop_and_assumption()
    assert again == cheapest
    assert given_up is not None
    assert given_up.startswith("the driver had chosen another chain")
    assert given_up.endswith("more by now")

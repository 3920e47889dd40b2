"""Habits are driven over the trips of stored plans, and what cannot be driven is counted as left out."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from domain.database.connections import Connection, Tenant
from domain.housekeeping.retention import delete_routes
from domain.planning.explanation import pack_explanation
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.savings.driver_habits import DriverHabit, LeftOut
from domain.savings.habit_costs import PaidByHabits, WaitingTrip, drive_habits, drive_waiting
from domain.savings.habit_report import HabitSavings, habit_row, savings_by_habit
from domain.savings.recording import drop_savings, record_savings
from domain.savings.spans import month_of
from domain.savings.usual_fueling import (
    LEAST_STOPS_OF_COMPANY,
    LEAST_STOPS_OF_TRUCK,
    Stop,
    UsualFueling,
    UsualFuelings,
    usual_fueling,
)
from tests.domain.burn.trips import card_fill
from tests.domain.planning.plans import inputs, meridian, priced
from tests.domain.savings.sent_plans import store_sent_plan
from tests.factories import Fleet

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
NOVEMBER = month_of(NOW.date(), "UTC")
STATIONS = (priced(60, 3.90), priced(180, 3.20), priced(330, 3.05), priced(420, 3.70), priced(560, 3.30))


def plan() -> ComputedPlan:
    made = compute_plan(inputs(meridian(900), *STATIONS, priced(700, 3.60)))
    assert isinstance(made, ComputedPlan)
    return made


PLAN = plan()
EXPLANATION = PLAN.explanation()
CENTS = round(100 * PLAN.total_cost)


def drive_all(connection: Connection, tenant: Tenant) -> list[bool]:
    rows = connection.execute(
        "SELECT route_id, company_id, environment, plan_id FROM habit_costs WHERE company_id = %s AND driven_at IS NULL"
        " ORDER BY planned_at, route_id",
        (tenant.company_id,),
    )
    fuelings = UsualFuelings()
    return [drive_waiting(connection, WaitingTrip(*row), fuelings, now=NOW) for row in rows.fetchall()]


def by_habit(connection: Connection, tenant: Tenant) -> Mapping[DriverHabit, HabitSavings]:
    return {one.habit: one for one in savings_by_habit(connection, tenant, NOVEMBER)}


def test_no_habit_pays_less_than_the_cheapest_plan_of_free_stops() -> None:
    cheapest = compute_plan(inputs(meridian(900), *STATIONS, priced(700, 3.60), stop_cost=0.0))
    assert isinstance(cheapest, ComputedPlan)
    costs = drive_habits(cheapest.explanation(), UsualFueling("truck", 12, 0.5, {}), {})
    assert all(cents is not None and cents >= round(100 * cheapest.total_cost) for cents in costs)


def test_the_savings_against_each_habit_are_the_sums_of_the_trips(connection: Connection, fleet: Fleet) -> None:
    explanation = pack_explanation(EXPLANATION)
    for number in range(3):
        route = {"externalId": f"L-{number}"}
        store_sent_plan(connection, fleet.live, explanation, now=NOW, cents=CENTS + number, **route)
    store_sent_plan(connection, fleet.live, None, now=NOW, externalId="GONE")
    assert {one.left_out[LeftOut.WAITING] for one in by_habit(connection, fleet.live).values()} == {4}

    assert sorted(drive_all(connection, fleet.live)) == [False, True, True, True]

    expected = drive_habits(EXPLANATION, None, {})
    found = by_habit(connection, fleet.live)
    for habit, cents in (
        (DriverHabit.BELOW_30, expected.below_30_cents),
        (DriverHabit.CHEAPEST, expected.cheapest_cents),
    ):
        assert cents is not None
        assert found[habit] == HabitSavings(habit, 3, 3 * CENTS + 3, 3 * cents, {LeftOut.FORGOTTEN: 1})
        assert found[habit].saved == Decimal(3 * cents - 3 * CENTS - 3).scaleb(-2)
    usual = found[DriverHabit.USUAL]
    assert usual.left_out == {LeftOut.FORGOTTEN: 1, LeftOut.TOO_FEW_FILLS: 3}
    assert habit_row(usual)["saved"] is None, "nothing is shown where nothing is known"
    assert habit_row(usual)["why_left_out"] == "1 inputs no longer kept; 3 too few fills in the quarter before"


def test_a_new_plan_of_the_route_waits_again_and_a_dropped_one_is_gone(connection: Connection, fleet: Fleet) -> None:
    route_id = store_sent_plan(connection, fleet.live, pack_explanation(EXPLANATION), now=NOW)
    connection.execute(
        "UPDATE plans SET document = %s WHERE route_id = %s",
        ('{"totalGallons": 100, "totalCost": 300, "savingsTotal": 20}', route_id),
    )
    connection.execute(
        "UPDATE routes r SET plan_id = p.id FROM plans p WHERE p.route_id = r.id AND r.id = %s", (route_id,)
    )
    assert drive_all(connection, fleet.live) == [True]
    record_savings(connection, route_id)
    assert drive_all(connection, fleet.live) == [True], "it waited again"
    drop_savings(connection, [route_id])
    assert drive_all(connection, fleet.live) == []
    assert by_habit(connection, fleet.live)[DriverHabit.CHEAPEST].left_out == {}


def test_a_forgotten_explanation_takes_no_figure_back_and_a_forgotten_route_does(
    connection: Connection, fleet: Fleet
) -> None:
    route_id = store_sent_plan(connection, fleet.live, pack_explanation(EXPLANATION), now=NOW)
    drive_all(connection, fleet.live)
    before = by_habit(connection, fleet.live)
    connection.execute("UPDATE plans SET explanation = NULL WHERE route_id = %s", (route_id,))
    assert by_habit(connection, fleet.live) == before
    delete_routes(connection, [route_id])
    assert by_habit(connection, fleet.live)[DriverHabit.CHEAPEST].trips == 0


# --- As in the quarter before ----------------------------------------------------------------------------------


def fill_quarter(connection: Connection, fleet: Fleet, stops: int, gallons: float, *, truck: int = 0) -> None:
    for number in range(stops):
        card_fill(
            connection,
            fleet,
            fleet.live,
            datetime(2026, 7, 2, tzinfo=UTC) + timedelta(days=number % 80),
            gallons,
            truck=truck,
        )


def usual_cents(connection: Connection, route_id: UUID) -> tuple[int | None, str | None]:
    row = connection.execute("SELECT usual_cents, usual_of FROM habit_costs WHERE route_id = %s", (route_id,))
    found = row.fetchone()
    assert found is not None
    return found[0], found[1]


def test_a_truck_is_compared_with_its_own_quarter_before_else_with_its_company_s(
    connection: Connection, fleet: Fleet
) -> None:
    packed = pack_explanation(EXPLANATION)
    fill_quarter(connection, fleet, LEAST_STOPS_OF_TRUCK - 1, 60.0)
    few = store_sent_plan(connection, fleet.live, packed, now=NOW, externalId="FEW")
    drive_all(connection, fleet.live)
    assert usual_cents(connection, few) == (None, None)

    fill_quarter(connection, fleet, LEAST_STOPS_OF_COMPANY, 120.0, truck=1)
    of_company = store_sent_plan(connection, fleet.live, packed, now=NOW, externalId="COMPANY")
    drive_all(connection, fleet.live)
    assert usual_cents(connection, of_company)[1] == "company"

    card_fill(connection, fleet, fleet.live, datetime(2026, 9, 30, 12, tzinfo=UTC), 60.0)
    own = store_sent_plan(connection, fleet.live, packed, now=NOW, externalId="OWN")
    later = datetime(2026, 10, 2, tzinfo=UTC)
    for number in range(20):  # in the plan's own quarter: nobody knew them before it
        card_fill(connection, fleet, fleet.live, later + timedelta(days=number), 180.0)
    drive_all(connection, fleet.live)
    expected = drive_habits(
        EXPLANATION, UsualFueling("truck", 10, 60 / EXPLANATION["inputs"]["capacity_gallons"], {}), {}
    )
    assert usual_cents(connection, own) == (expected.usual_cents, "truck")


def test_each_usual_chain_weighs_as_much_as_it_sold() -> None:
    stops = [Stop(75.0, 200.0, "Pilot", None)] * 8 + [Stop(50.0, 200.0, None, "LOVE'S #12")] * 4
    usual = usual_fueling("truck", [*stops, Stop(10.0, 200.0, None, "Joe's")], least=10)
    assert usual == UsualFueling("truck", 13, 0.375, {"loves": 0.25, "pilot": 0.75})
    assert usual_fueling("truck", stops, least=13) is None

    brands = {
        one["station_id"]: ("Pilot" if number % 2 else "Love's") for number, one in enumerate(EXPLANATION["candidates"])
    }
    mixed = drive_habits(EXPLANATION, usual, brands)
    alone = [drive_habits(EXPLANATION, usual._replace(chains={chain: 1.0}), brands) for chain in ("loves", "pilot")]
    assert None not in (mixed.usual_cents, *(one.usual_cents for one in alone))
    assert mixed.usual_cents == pytest.approx(0.25 * _of(alone[0]) + 0.75 * _of(alone[1]), abs=1)


def _of(costs: PaidByHabits) -> int:
    assert costs.usual_cents is not None
    return costs.usual_cents

"""Figures of savings are the sums of the plans that count, to the cent, by every dimension."""

import csv
import io
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database.connections import Connection, Database, Tenant
from domain.files.csvfiles import write_records
from domain.housekeeping.retention import delete_routes
from domain.lifecycle import TRANSITIONS, RouteStatus
from domain.messages.message_life import MessageClaim
from domain.routes import transitions
from domain.routes.plans import delivery
from domain.savings.export import CSV_COLUMNS, line_row, plan_row
from domain.savings.report import (
    ALL_PLANS,
    Dimension,
    Figures,
    LineOrder,
    PlanFilter,
    SavingsLine,
    Week,
    plans_behind,
    savings_by_line,
    savings_by_week,
    total_of,
)
from domain.savings.spans import Span, UnusableSpan, month_of, quarter_of, read_month
from domain.settings import Settings
from tests.domain.helpers import corrected_by_hand, deliver, imported, planned_by_hand, route_row
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.repeatable import examples
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)
NOVEMBER = Span(date(2026, 11, 1), date(2026, 11, 30), "UTC")


def sent(
    connection: Connection, config: Settings, tenant: Tenant, *, at: datetime = NOON, route: Any = None, **plan: Any
) -> UUID:
    """An active route with a plan of that time, which the driver has."""
    route_id = imported(connection, tenant, now=at, **(route or {}))
    deliver(connection, planned_by_hand(connection, route_id, now=at, **plan), settings=config, now=at)
    assert route_row(connection, route_id).status == RouteStatus.ACTIVE
    return route_id


def total(connection: Connection, tenant: Tenant, span: Span = NOVEMBER, only: PlanFilter = ALL_PLANS) -> Figures:
    return total_of(savings_by_week(connection, tenant, span, only))


def behind(connection: Connection, tenant: Tenant, span: Span = NOVEMBER, only: PlanFilter = ALL_PLANS) -> list[UUID]:
    return [plan.route_id for plan in plans_behind(connection, tenant, span, only)]


# --- Which plans count -----------------------------------------------------------------------------------------


def test_a_plan_counts_from_when_the_driver_has_it(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    route_id = imported(connection, fleet.live, now=NOON)
    message = planned_by_hand(connection, route_id, now=NOON, savingsTotal=31.5)
    assert total(connection, fleet.live).plans == 0
    deliver(connection, message, settings=settings, now=NOON)
    assert total(connection, fleet.live) == Figures(1, 1, Decimal(150), 52050, 3150)
    (plan,) = plans_behind(connection, fleet.live, NOVEMBER)
    assert (plan.route_id, plan.plan_id) == (route_id, route_row(connection, route_id).plan_id)
    assert (plan.unit_number, plan.driver_name) == ("101", "Ann Lee")
    assert (plan.origin, plan.destination) == ("Joliet terminal, IL", "Port Newark, NJ")


def complete(connection: Connection, route_id: UUID) -> None:
    """The truck has reached the last stop."""
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)"
        " SELECT company_id, environment, id, 1, %s FROM routes WHERE id = %s",
        (NOON, route_id),
    )
    transitions.complete_routes(connection, [route_id], now=NOON)
    assert route_row(connection, route_id).status == RouteStatus.COMPLETED


def test_a_completed_route_still_counts(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    route_id = sent(connection, settings, fleet.live)
    complete(connection, route_id)
    assert total(connection, fleet.live).plans == 1


def test_a_route_that_is_completed_while_its_message_is_handed_over_counts(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    connection.execute("UPDATE drivers SET contact = 'json://127.0.0.1:9/' WHERE id = %s", (fleet.drivers[0],))
    route_id = imported(connection, fleet.live, now=NOON)
    message = planned_by_hand(connection, route_id, now=NOON, savingsTotal=31.5)
    allowing = settings.model_copy(update={"message_allowed_hosts": "127.0.0.1"})
    claimed = delivery.start_delivery(connection, message, settings=allowing, now=NOON)
    assert isinstance(claimed, MessageClaim)
    complete(connection, route_id)
    assert total(connection, fleet.live).plans == 0

    delivery.finish_delivery(connection, claimed, None, settings=allowing, now=NOON)

    assert total(connection, fleet.live) == Figures(1, 1, Decimal(150), 52050, 3150)


def test_a_route_that_ends_in_error_no_longer_counts(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    ended, expired, goes_on = (sent(connection, settings, fleet.live) for _ in range(3))
    transitions.end_routes(connection, [ended], "the truck was sold", now=NOON)
    assert set(behind(connection, fleet.live)) == {expired, goes_on}
    connection.execute("UPDATE routes SET imported_at = now() - interval '60 days' WHERE id = %s", (expired,))
    transitions.expire_started_routes(connection, expiry_days=30, now=datetime.now(UTC))
    assert route_row(connection, expired).status == RouteStatus.ERROR
    assert goes_on in behind(connection, fleet.live)
    assert expired not in behind(connection, fleet.live)


def test_an_active_route_can_only_be_completed_or_end_in_error() -> None:
    """A new transition would have to delete the route's savings, as `transitions` does where routes end in `error`."""
    assert TRANSITIONS[RouteStatus.ACTIVE] == {RouteStatus.COMPLETED, RouteStatus.ERROR}
    assert TRANSITIONS[RouteStatus.COMPLETED] == frozenset()


def test_planned_and_canceled_routes_do_not_count(connection: Connection, fleet: Fleet) -> None:
    waits, canceled = (imported(connection, fleet.live, now=NOON) for _ in range(2))
    for route_id in (waits, canceled):
        planned_by_hand(connection, route_id, now=NOON)
    transitions.cancel_route(connection, fleet.live, canceled, now=NOON)
    assert total(connection, fleet.live).plans == 0


def test_only_the_version_that_the_driver_has_counts(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    route_id = sent(connection, settings, fleet.live, savingsTotal=31.5)
    later = NOON + timedelta(hours=2)
    message = corrected_by_hand(connection, route_id, now=later, savingsTotal=11.07, totalCost=400.1, totalGallons=120)
    assert total(connection, fleet.live).saved == Decimal("31.5"), "the driver does not have the correction yet"
    deliver(connection, message, settings=settings, now=later)
    assert total(connection, fleet.live) == Figures(1, 1, Decimal(120), 40010, 1107)
    (plan,) = plans_behind(connection, fleet.live, NOVEMBER)
    assert (plan.plan_id, plan.planned_at) == (route_row(connection, route_id).plan_id, later)


def test_a_plan_without_a_purchase_counts_and_saves_nothing(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    nothing: dict[str, Any] = {"totalGallons": 0.0, "totalCost": 0.0, "savingsTotal": None, "stops": []}
    sent(connection, settings, fleet.live, **nothing)
    figures = total(connection, fleet.live)
    assert figures == Figures(1, 0, Decimal(0), 0, 0)
    assert (figures.saved_per_gallon, figures.saved_percent) == (None, None)
    assert savings_by_line(connection, fleet.live, NOVEMBER, Dimension.TRUCK, order=LineOrder.PERCENT).total == 1


def test_each_company_and_environment_has_its_own(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    other = make_fleet(connection)
    live, sandbox = sent(connection, settings, fleet.live), sent(connection, settings, fleet.sandbox)
    elsewhere = sent(connection, settings, other.live)
    for tenant, route_id in ((fleet.live, live), (fleet.sandbox, sandbox), (other.live, elsewhere)):
        assert behind(connection, tenant) == [route_id]
        assert total(connection, tenant).plans == 1
        assert [savings_by_line(connection, tenant, NOVEMBER, by).total for by in Dimension] == [1, 1, 1]
    assert behind(connection, other.live, only=PlanFilter(vehicle_id=fleet.trucks[0])) == []


def test_a_route_that_retention_deletes_no_longer_counts(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    route_id = sent(connection, settings, fleet.live)
    delete_routes(connection, [route_id])
    assert total(connection, fleet.live).plans == 0


# --- When ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "last_moment"),
    [
        ("UTC", datetime(2026, 11, 30, 23, 59, 59, 999999, tzinfo=UTC)),
        ("America/Chicago", datetime(2026, 12, 1, 5, 59, 59, 999999, tzinfo=UTC)),
        ("Asia/Kolkata", datetime(2026, 11, 30, 18, 29, 59, 999999, tzinfo=UTC)),
    ],
)
def test_a_month_ends_in_the_company_s_zone(
    connection: Connection, fleet: Fleet, settings: Settings, zone: str, last_moment: datetime
) -> None:
    november, december = month_of(date(2026, 11, 3), zone), month_of(date(2026, 12, 3), zone)
    last = sent(connection, settings, fleet.live, at=last_moment)
    first = sent(connection, settings, fleet.live, at=last_moment + timedelta(microseconds=1))
    assert behind(connection, fleet.live, november) == [last]
    assert behind(connection, fleet.live, december) == [first]
    assert savings_by_week(connection, fleet.live, november)[-1].figures.plans == 1
    assert savings_by_week(connection, fleet.live, december)[0].figures.plans == 1


def test_weeks_begin_with_the_span_and_then_on_mondays(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    span = month_of(date(2026, 11, 15), "America/Chicago")  # the clocks go back on its first day, a Sunday
    assert span.weeks == [date(2026, 11, day) for day in (1, 2, 9, 16, 23, 30)]
    assert (span.end - span.start).total_seconds() == 30 * 86_400 + 3_600
    sent(connection, settings, fleet.live, at=datetime(2026, 11, 9, 5, 59, tzinfo=UTC))
    sent(connection, settings, fleet.live, at=datetime(2026, 11, 9, 6, 0, tzinfo=UTC))
    assert [week.figures.plans for week in savings_by_week(connection, fleet.live, span)] == [0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("text", ["9999-12", "1999-12", "2026-13", "2026", "2026-10-01", "x", ""])
def test_a_text_that_names_no_reported_month_is_refused(text: str) -> None:
    with pytest.raises(UnusableSpan):
        read_month(text)


def test_spans_are_checked() -> None:
    day = date(2026, 3, 1)
    assert quarter_of(date(2026, 12, 31), "UTC") == Span(date(2026, 10, 1), date(2026, 12, 31), "UTC")
    assert quarter_of(day, "UTC") == Span(date(2026, 1, 1), date(2026, 3, 31), "UTC")
    assert month_of(date(2024, 2, 9), "UTC").last_day == date(2024, 2, 29)
    Span(date(2024, 1, 1), date(2024, 12, 31), "UTC")
    for first, last in ((day, date(2026, 2, 28)), (day, date(2027, 3, 2)), (date.min, day), (day, date.max)):
        with pytest.raises(UnusableSpan):
            Span(first, last, "UTC")


# --- Sums ------------------------------------------------------------------------------------------------------


class Planned(NamedTuple):
    """A generated plan in cents and tenths of gallons."""

    truck: int
    driver: int
    lane: tuple[int, int]
    hour: int
    gallons: int
    cost: int
    saved: int | None


PLACES = (JOLIET, PERRYSBURG, NEWARK)
PLANNED = st.builds(
    Planned,
    truck=st.integers(0, 1),
    driver=st.integers(0, 1),
    lane=st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(lambda ends: ends[0] != ends[1]),
    hour=st.integers(-30, 750),  # some before the month, some after it
    gallons=st.integers(1, 9_999),
    cost=st.integers(1, 200_000),
    saved=st.none() | st.integers(-30_000, 60_000),
)


@hypothesis_settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(PLANNED, max_size=8))
def test_every_way_of_summing_agrees_with_the_plans_to_the_cent(
    database: Database, settings: Settings, plans: list[Planned]
) -> None:
    with database.transaction() as connection:
        _check_sums(connection, settings, plans)
        raise psycopg.Rollback


def send_planned(connection: Connection, config: Settings, fleet: Fleet, plan: Planned) -> None:
    sent(
        connection,
        config,
        fleet.live,
        at=NOVEMBER.start + timedelta(hours=plan.hour),
        route={
            "vehicle": {"unitNumber": ("101", "102")[plan.truck]},
            "driver": {"name": ("Ann Lee", "Bo Diaz")[plan.driver]},
            "stops": [PLACES[plan.lane[0]], PLACES[plan.lane[1]]],
        },
        totalGallons=plan.gallons / 10,
        totalCost=plan.cost / 100,
        savingsTotal=plan.saved / 100 if plan.saved is not None else None,
    )


def _check_sums(connection: Connection, config: Settings, plans: list[Planned]) -> None:
    fleet = make_fleet(connection)
    for plan in plans:
        send_planned(connection, config, fleet, plan)
    documents = (
        named(connection)
        .execute(
            "SELECT p.document, r.vehicle_id, r.driver_id, r.stops FROM routes r JOIN plans p ON p.id = r.plan_id"
            " WHERE r.company_id = %s AND p.generated_at >= %s AND p.generated_at < %s",
            (fleet.company_id, NOVEMBER.start, NOVEMBER.end),
        )
        .fetchall()
    )
    wanted: dict[Dimension, dict[Any, list[Any]]] = {by: defaultdict(list) for by in Dimension}
    for row in documents:
        wanted[Dimension.TRUCK][row.vehicle_id].append(row.document)
        wanted[Dimension.DRIVER][row.driver_id].append(row.document)
        wanted[Dimension.LANE][row.stops[0]["name"], row.stops[1]["name"]].append(row.document)
    in_all = total(connection, fleet.live)
    assert in_all == _sum([row.document for row in documents])
    for by in Dimension:
        found = savings_by_line(connection, fleet.live, NOVEMBER, by)
        assert found.total == len(found.lines) == len(wanted[by])
        assert total_of_lines(found.lines) == in_all
        assert [line.figures.saved_cents for line in found.lines] == sorted(
            (line.figures.saved_cents for line in found.lines), reverse=True
        )
        for line in found.lines:
            lane = line.id is None
            key = (str(line.name).rpartition(",")[0], str(line.other).rpartition(",")[0]) if lane else line.id
            assert line.figures == _sum(wanted[by][key])
            only = {
                Dimension.TRUCK: PlanFilter(vehicle_id=line.id),
                Dimension.DRIVER: PlanFilter(driver_id=line.id),
                Dimension.LANE: PlanFilter(origin=line.name, destination=line.other),
            }[by]
            assert total(connection, fleet.live, only=only) == line.figures, "the figure, and the plans behind it"
            assert len(behind(connection, fleet.live, only=only)) == line.figures.plans


def _sum(documents: list[dict[str, Any]]) -> Figures:
    def added(name: str) -> Decimal:
        return sum((Decimal(str(document[name] or 0)) for document in documents), Decimal(0))

    purchasing = sum(document["savingsTotal"] is not None for document in documents)
    cost, saved = (int(100 * added(name)) for name in ("totalCost", "savingsTotal"))
    return Figures(len(documents), purchasing, added("totalGallons"), cost, saved)


def total_of_lines(lines: list[SavingsLine]) -> Figures:
    return total_of([Week(NOVEMBER.first_day, line.figures) for line in lines])


def test_lines_are_ordered_by_any_figure_and_paged(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    other_truck: dict[str, Any] = {"vehicle": {"unitNumber": "102"}}
    for saved in (10.0, 11.0):
        sent(connection, settings, fleet.live, savingsTotal=saved, totalGallons=300.0)
    sent(connection, settings, fleet.live, route=other_truck, savingsTotal=20.0, totalGallons=100.0)

    def units(order: LineOrder, **more: Any) -> list[str | None]:
        return [
            line.name
            for line in savings_by_line(connection, fleet.live, NOVEMBER, Dimension.TRUCK, order=order, **more).lines
        ]

    assert (
        units(LineOrder.SAVED)
        == units(LineOrder.GALLONS)
        == units(LineOrder.PLANS)
        == units(LineOrder.COST)
        == ["101", "102"]
    )
    assert units(LineOrder.PER_GALLON) == units(LineOrder.PERCENT) == ["102", "101"]
    assert units(LineOrder.SAVED, ascending=True) == ["102", "101"]
    assert units(LineOrder.SAVED, limit=1) == ["101"]
    assert units(LineOrder.SAVED, limit=1, offset=1) == ["102"]


def test_figures_contain_the_cost_at_the_average_price() -> None:
    figures = Figures(2, 2, Decimal("150.5"), 52050, 3150)
    assert (figures.cost, figures.saved, figures.average_cost) == (Decimal("520.5"), Decimal("31.5"), Decimal(552))
    assert (figures.saved_per_gallon, figures.saved_percent) == (Decimal("0.209"), Decimal("5.7"))


# --- Export ----------------------------------------------------------------------------------------------------


def test_an_export_has_the_figures_and_no_formula(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    stops = [{**JOLIET, "name": '=HYPERLINK("http://x")'}, NEWARK]
    sent(connection, settings, fleet.live, route={"stops": stops, "externalId": "@SUM(1)"}, savingsTotal=-31.5)
    lanes, plans = io.StringIO(), io.StringIO()
    write_records(
        lanes,
        CSV_COLUMNS[Dimension.LANE],
        (line_row(Dimension.LANE, line) for line in savings_by_line(connection, *where(fleet), Dimension.LANE).lines),
    )
    write_records(plans, CSV_COLUMNS["plan"], map(plan_row, plans_behind(connection, *where(fleet))))
    (lane,) = csv.DictReader(io.StringIO(lanes.getvalue(), newline=""))
    (plan,) = csv.DictReader(io.StringIO(plans.getvalue(), newline=""))
    assert tuple(lane) == CSV_COLUMNS[Dimension.LANE]
    assert lane["origin"] == plan["origin"] == '\'=HYPERLINK("http://x"), IL'
    assert plan["external_id"] == "'@SUM(1)"
    assert lane["saved"] == plan["saved"] == "-31.5"
    assert (lane["plans"], lane["gallons"], lane["planned_cost"], lane["cost_at_average"]) == (
        "1",
        "150",
        "520.5",
        "489",
    )


def where(fleet: Fleet) -> tuple[Tenant, Span]:
    return fleet.live, NOVEMBER

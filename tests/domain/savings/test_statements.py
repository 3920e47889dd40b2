"""A month's statement is made once and never changes; what changes later is told beside it and in the next one."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyhanko.pdf_utils.reader import PdfFileReader

from domain.accounts.companies import set_policy
from domain.accounts.contacts import IN_CLEAR
from domain.accounts.policy import Policy
from domain.database.connections import Connection
from domain.housekeeping.retention import delete_routes
from domain.notices.notice_life import NoticeClaim, claim_notice
from domain.notices.statement_notices import tell_statement
from domain.notices.subscriptions import STATEMENTS
from domain.savings.driver_habits import DriverHabit, LeftOut
from domain.savings.export import statement_row
from domain.savings.recording import drop_savings, record_bought
from domain.savings.statement_figures import NO_CHANGES, SavingsStatement, changes_since
from domain.savings.statement_pdf import change_in_words
from domain.savings.statements import (
    ON_ITS_DAY,
    DueStatement,
    NoStatement,
    due_statements,
    keep_for_statement,
    list_statements,
    make_statement,
    newest_due_month,
    read_statement,
    read_statement_pdf,
    trips_of_statement,
    wait_for_habits,
)
from domain.settings import Settings
from tests.domain.notices.subscriptions import look, notices_of, subscribe
from tests.domain.savings.sent_plans import store_sent_plan
from tests.factories import DOT, Fleet
from tests.repeatable import examples

OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
IN_OCTOBER, IN_NOVEMBER = datetime(2026, 10, 20, 12, tzinfo=UTC), datetime(2026, 11, 20, 12, tzinfo=UTC)
NOV_5, DEC_5 = datetime(2026, 11, 5, 9, tzinfo=UTC), datetime(2026, 12, 5, 9, tzinfo=UTC)


def trip(connection: Connection, fleet: Fleet, load: str, *, at: datetime = IN_OCTOBER, **columns: Any) -> UUID:
    """A plan for $300 that saves $20, and habits that pay more."""
    route_id = store_sent_plan(connection, fleet.live, None, now=at, cents=30_000, externalId=load)
    connection.execute("UPDATE savings SET saved_cents = 2000 WHERE route_id = %s", (route_id,))
    connection.execute(
        "UPDATE habit_costs SET driven_at = planned_at, below_30_cents = 33000, cheapest_cents = 31000"
        " WHERE route_id = %s",
        (route_id,),
    )
    return route_id


def make(connection: Connection, fleet: Fleet, month: date = OCTOBER, *, now: datetime = NOV_5) -> SavingsStatement:
    return make_statement(connection, fleet.company_id, month, ON_ITS_DAY, contacts=IN_CLEAR, now=now)


def since(connection: Connection, statement: SavingsStatement) -> str:
    changes = changes_since(connection, statement)
    return "not told" if changes is None else change_in_words(changes)


def test_a_statement_is_the_sum_of_its_trips_and_names_no_person(connection: Connection, fleet: Fleet) -> None:
    bought, _ = trip(connection, fleet, "A"), trip(connection, fleet, "B")
    record_bought(connection, {bought: (90.0, 27_000)})
    trip(connection, fleet, "LATER", at=IN_NOVEMBER)

    made = make(connection, fleet)

    figures = made.sums.figures
    assert (figures.plans, figures.saved, figures.with_fills, figures.proven) == (2, Decimal(40), 1, Decimal("18.00"))
    below, cheapest, usual = made.sums.habits
    assert (below.trips, below.saved, cheapest.saved) == (2, Decimal(60), Decimal(20))
    assert (usual.trips, usual.left_out) == (0, {LeftOut.TOO_FEW_FILLS: 2})
    trips = list(trips_of_statement(connection, fleet.company_id, OCTOBER))
    assert sum(one.saved_cents or 0 for one in trips) == figures.saved_cents
    assert sum(one.below_30_cents or 0 for one in trips) == below.habit_cents
    assert read_statement(connection, fleet.company_id, OCTOBER) == made, "stored as it was made"
    stored = connection.execute(
        "SELECT s::text || t::text FROM savings_statements s JOIN statement_trips t USING (company_id, month)"
        " WHERE company_id = %s",
        (fleet.company_id,),
    ).fetchall()
    assert not [row for row in stored if "Ann" in row[0] or str(fleet.drivers[0]) in row[0]]


def test_the_gallons_of_several_purchases_have_three_decimals_in_the_file_of_trips(
    connection: Connection, fleet: Fleet
) -> None:
    record_bought(connection, {trip(connection, fleet, "A"): (119.369 + 65.164 + 143.98, 120_000)})
    make(connection, fleet)
    (row,) = (statement_row(OCTOBER, one) for one in trips_of_statement(connection, fleet.company_id, OCTOBER))
    assert row["bought_gallons"] == 328.513


@pytest.mark.parametrize(
    ("first_zone", "then_zone"), [("America/New_York", "America/Los_Angeles"), ("UTC", "Asia/Tokyo")]
)
def test_each_plan_is_in_one_statement_although_the_time_zone_changes(
    connection: Connection, fleet: Fleet, first_zone: str, then_zone: str
) -> None:
    for number, hours in enumerate((-30, -12, -2, 1, 6, 9, 30)):
        trip(connection, fleet, f"T{number}", at=datetime(2026, 11, 1, 2, tzinfo=UTC) + timedelta(hours=hours))
    set_policy(connection, fleet.company_id, Policy(time_zone=first_zone), DOT)
    october = make(connection, fleet)
    set_policy(connection, fleet.company_id, Policy(time_zone=then_zone), DOT)
    november = make(connection, fleet, NOVEMBER, now=DEC_5)
    assert october.sums.figures.plans + november.sums.figures.plans == 7
    assert november.counted_hours.start == october.counted_hours.end
    assert read_statement(connection, fleet.company_id, NOVEMBER) == november
    assert since(connection, october) == since(connection, november), "nothing changed in either"
    assert made_before(connection, fleet).counted_hours.end == october.counted_hours.start


def test_a_trip_that_retention_forgets_first_is_in_the_statement(connection: Connection, fleet: Fleet) -> None:
    _, forgotten, waiting = (trip(connection, fleet, load) for load in ("KEPT", "FORGOTTEN", "WAITING"))
    record_bought(connection, {forgotten: (90.0, 27_000)})
    connection.execute(
        "UPDATE habit_costs SET driven_at = NULL, below_30_cents = NULL, cheapest_cents = NULL WHERE route_id = %s",
        (waiting,),
    )
    keep_for_statement(connection, [forgotten, waiting], now=IN_OCTOBER + timedelta(days=7))
    delete_routes(connection, [forgotten, waiting])
    assert DueStatement(fleet.company_id, OCTOBER) in list(due_statements(connection, now=NOV_5))

    made = make(connection, fleet)

    assert (made.sums.figures.plans, made.sums.figures.proven) == (3, Decimal("18.00"))
    assert made.sums.habits[0].left_out == {LeftOut.FORGOTTEN: 1}
    assert since(connection, made) == "not told"
    keep_for_statement(connection, [trip(connection, fleet, "LATE")], now=DEC_5)
    assert made.sums.figures.plans == len(list(trips_of_statement(connection, fleet.company_id, OCTOBER))), "it is made"


def test_a_trip_that_retention_forgets_after_a_change_of_the_time_zone_is_in_the_next_statement(
    connection: Connection, fleet: Fleet
) -> None:
    """It was planned in November by the clock of October's statement, and in October by the clock since then."""
    trip(connection, fleet, "OCTOBER")
    forgotten = trip(connection, fleet, "FORGOTTEN", at=datetime(2026, 11, 1, 5, tzinfo=UTC))
    set_policy(connection, fleet.company_id, Policy(time_zone="America/New_York"), DOT)
    assert make(connection, fleet).sums.figures.plans == 1
    set_policy(connection, fleet.company_id, Policy(time_zone="America/Los_Angeles"), DOT)
    keep_for_statement(connection, [forgotten], now=IN_NOVEMBER)
    delete_routes(connection, [forgotten])
    assert make(connection, fleet, NOVEMBER, now=DEC_5).sums.figures.plans == 1


def test_a_trip_that_retention_forgets_meanwhile_is_in_the_statement_once(connection: Connection, fleet: Fleet) -> None:
    """Retention has stored its figures already, and the statement still sees the route."""
    keep_for_statement(connection, [trip(connection, fleet, "FORGOTTEN")], now=IN_OCTOBER + timedelta(days=7))
    assert make(connection, fleet).sums.figures.plans == 1


def made_before(connection: Connection, fleet: Fleet) -> SavingsStatement:
    """The statement of the month before, made last."""
    trip(connection, fleet, "SEPTEMBER", at=IN_OCTOBER - timedelta(days=30))
    return make(connection, fleet, date(2026, 9, 1), now=DEC_5)


def test_the_signed_file_is_the_one_that_was_sent(connection: Connection, fleet: Fleet) -> None:
    trip(connection, fleet, "A")
    make(connection, fleet)
    pdf = read_statement_pdf(connection, fleet.company_id, OCTOBER)
    assert pdf is not None
    assert len(PdfFileReader(BytesIO(pdf)).embedded_signatures) == 1
    trip(connection, fleet, "LATE")
    assert read_statement_pdf(connection, fleet.company_id, OCTOBER) == pdf


def test_a_statement_is_made_once(connection: Connection, fleet: Fleet) -> None:
    trip(connection, fleet, "A")
    for month, now, why in (
        (NOVEMBER, NOV_5, "not over"),
        (date(2026, 9, 1), NOV_5, "no live plan"),
    ):
        with pytest.raises(NoStatement, match=why):
            make(connection, fleet, month, now=now)
    make(connection, fleet)
    with pytest.raises(NoStatement, match="never changes"):
        make(connection, fleet)


def test_it_waits_for_trips_that_are_not_compared_yet(connection: Connection, fleet: Fleet) -> None:
    route_id = trip(connection, fleet, "A")
    connection.execute("UPDATE habit_costs SET driven_at = NULL WHERE route_id = %s", (route_id,))
    with pytest.raises(NoStatement, match="1 trips of 2026-10 are not compared"):
        make(connection, fleet)


def test_a_plan_that_a_release_before_this_one_replaced_is_compared_in_the_end(
    connection: Connection, fleet: Fleet
) -> None:
    route_id = trip(connection, fleet, "A")
    connection.execute("UPDATE savings SET plan_id = gen_random_uuid() WHERE route_id = %s", (route_id,))
    with pytest.raises(NoStatement, match="not compared"):
        make(connection, fleet)
    wait_for_habits(connection, fleet.company_id, OCTOBER)
    waiting = connection.execute(
        "SELECT h.driven_at, h.plan_id = s.plan_id FROM habit_costs h JOIN savings s USING (route_id)"
        " WHERE route_id = %s",
        (route_id,),
    )
    assert waiting.fetchall() == [(None, True)]


LATER = st.lists(st.sampled_from(["new plan", "late fill", "error", "corrected", "erased explanation"]), max_size=4)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LATER)
@example(["error", "new plan"])
def test_a_frozen_month_never_changes_whatever_comes_later(
    connection: Connection, fleet: Fleet, later: list[str]
) -> None:
    with connection.transaction(force_rollback=True):
        routes = [trip(connection, fleet, f"L-{number}") for number in range(2)]
        made = make(connection, fleet)
        pdf, trips = read_statement_pdf(connection, fleet.company_id, OCTOBER), _trips(connection, fleet)
        for number, event in enumerate(later):
            if event == "new plan":
                trip(connection, fleet, f"LATE-{number}")
            elif event == "late fill":
                record_bought(connection, {routes[0]: (50.0 + number, 10_000)})
            elif event == "error":
                drop_savings(connection, routes[1:])
            elif event == "corrected":
                connection.execute("UPDATE savings SET cost_cents = cost_cents + 700 WHERE route_id = %s", routes[:1])
            else:
                connection.execute("UPDATE plans SET explanation = NULL WHERE company_id = %s", (fleet.company_id,))
        assert read_statement(connection, fleet.company_id, OCTOBER) == made
        assert read_statement_pdf(connection, fleet.company_id, OCTOBER) == pdf
        assert _trips(connection, fleet) == trips
        plans, late = later.count("new plan") - ("error" in later), {"late fill", "corrected"} & set(later)
        assert since(connection, made).startswith(f"{plans:+} plan" if plans else "")
        assert (since(connection, made) == "nothing") == (not plans and not late)


def _trips(connection: Connection, fleet: Fleet) -> list[Any]:
    return list(trips_of_statement(connection, fleet.company_id, OCTOBER))


def test_later_changes_are_told_beside_the_page_and_once_in_the_next_statement(
    connection: Connection, fleet: Fleet
) -> None:
    route_id = trip(connection, fleet, "A")
    october = make(connection, fleet)
    assert changes_since(connection, october) == NO_CHANGES._replace(month=OCTOBER)
    record_bought(connection, {route_id: (100.0, 31_000)})
    trip(connection, fleet, "LATE")
    told = (
        "+1 plan; planned +$20.00; routes with fills +1; proven +$10.00; against fills up below 30 % +$30.00;"
        " against cheapest truck stop in reach +$10.00"
    )
    assert since(connection, october) == told
    trip(connection, fleet, "NEXT", at=IN_NOVEMBER)
    november = make(connection, fleet, NOVEMBER, now=DEC_5)
    assert [change_in_words(one) for one in november.since_then] == [told]
    assert november.since_then[0].habits[DriverHabit.BELOW_30] == Decimal(30)

    trip(connection, fleet, "LAST", at=datetime(2026, 12, 20, tzinfo=UTC))
    december = make(connection, fleet, date(2026, 12, 1), now=DEC_5 + timedelta(days=31))
    assert december.since_then == [], "it was told"
    delete_routes(connection, [route_id])
    assert since(connection, october) == "not told", "retention is no change of the month"
    assert [one.month for one in list_statements(connection, fleet.company_id, limit=2)] == [
        date(2026, 12, 1),
        NOVEMBER,
    ]


# --- When ------------------------------------------------------------------------------------------------------


def test_a_month_is_due_on_the_company_s_day_by_its_own_clock() -> None:
    chicago = "America/Chicago"
    assert newest_due_month(datetime(2026, 11, 5, 13, 59, tzinfo=UTC), chicago, 5) == date(2026, 9, 1)
    assert newest_due_month(datetime(2026, 11, 5, 14, 0, tzinfo=UTC), chicago, 5) == OCTOBER
    assert newest_due_month(datetime(2026, 11, 1, 14, 0, tzinfo=UTC), chicago, 1) == OCTOBER
    assert newest_due_month(datetime(2026, 12, 31, 23, 0, tzinfo=UTC), chicago, 28) == NOVEMBER


def test_months_that_were_missed_are_made_up_and_months_before_the_first_are_not(
    connection: Connection, fleet: Fleet
) -> None:
    def due(now: datetime) -> list[date]:
        return [one.month for one in due_statements(connection, now=now) if one.company_id == fleet.company_id]

    for month in (8, 9, 10, 11):
        trip(connection, fleet, f"M-{month}", at=datetime(2026, month, 20, tzinfo=UTC))
    assert due(NOV_5) == [OCTOBER]
    make(connection, fleet, date(2026, 9, 1))
    assert due(NOV_5) == [OCTOBER]
    assert due(DEC_5) == [OCTOBER, NOVEMBER]
    set_policy(connection, fleet.company_id, Policy(statement_day=6), DOT)
    assert due(DEC_5) == [OCTOBER]
    assert DueStatement(fleet.company_id, OCTOBER) in list(due_statements(connection, now=DEC_5))


# --- Who is told -----------------------------------------------------------------------------------------------


def claim(connection: Connection, company_id: UUID, notice_id: UUID, config: Settings) -> NoticeClaim | None:
    return claim_notice(connection, company_id, notice_id, settings=config, now=NOV_5 + timedelta(minutes=1))


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_who_wants_statements_is_told_once_with_the_file(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    wanting = subscribe(connection, fleet.company_id, kinds=(STATEMENTS.kind,), quiet_from=0, quiet_until=1)
    subscribe(connection, fleet.company_id, name="Other", kinds=("error",))
    trip(connection, fleet, "A")

    assert tell_statement(connection, make(connection, fleet), console="https://console.example.com", now=NOV_5) == 1

    (notice,) = notices_of(connection, fleet.company_id)
    assert (notice.subscription_id, notice.part, notice.status) == (wanting.id, "statement", "pending")
    assert notice.text == (
        "Acme: statement of fuel savings, October 2026\n$20.00 saved as planned by 1 plan.\n"
        "https://console.example.com/savings/statements?month=2026-10"
    )
    assert look(connection, fleet.company_id, NOV_5 + timedelta(minutes=1)).due == [notice.id], "the pass finds it"
    claimed = claim(connection, fleet.company_id, notice.id, settings)
    assert claimed is not None
    assert claimed.attachment is not None
    assert claimed.attachment.name == "savings-2026-10.pdf"
    assert claimed.attachment.content == read_statement_pdf(connection, fleet.company_id, OCTOBER)
    assert claim(connection, fleet.company_id, notice.id, settings) is None
    (still,) = notices_of(connection, fleet.company_id)
    assert still.status == "pending"

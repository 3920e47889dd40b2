"""A filed quarter is frozen; what changes afterwards is told by state, and large differences need a person."""

from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.companies import lock_company
from domain.audit.entries import NoReason
from domain.database.connections import Connection, Database
from domain.housekeeping.retention import delete_routes
from domain.ifta.driven_routes import find_quarter_routes
from domain.ifta.filings import (
    NotFiled,
    StateChange,
    compare_filing,
    due_filings,
    file_quarter,
    read_filing,
    reopen_quarter,
    state_changes,
)
from domain.ifta.report import QuarterReport, StateLine
from domain.needs.company_needs import find_needs
from domain.settings import Settings
from domain.stations.taxes import store_tax_rows
from tests.domain.burn.trips import card_fill
from tests.domain.csv_files import CsvFile
from tests.domain.helpers import driven_without_a_plan
from tests.domain.ifta.test_report import NEW_YEAR, Q1, Q4, drive, report_of
from tests.factories import DOT, Fleet, make_fleet
from tests.repeatable import examples

WHY = DOT._replace(reason="confirmation 4711")
MONTH_LATER = NEW_YEAR + timedelta(days=30)


@pytest.fixture
def fleet(connection: Connection) -> Fleet:
    connection.execute("DELETE FROM stations")
    connection.execute("DELETE FROM fuel_taxes")
    return make_fleet(connection, time_zone="America/Chicago")


def file_it(connection: Connection, fleet: Fleet) -> QuarterReport:
    file_quarter(connection, find_quarter_routes(connection, fleet.company_id, Q4), WHY, now=NEW_YEAR)
    return filed(connection, fleet)


def filed(connection: Connection, fleet: Fleet) -> QuarterReport:
    filing = read_filing(connection, fleet.company_id, Q4)
    assert filing is not None
    return filing.report


def compare(connection: Connection, fleet: Fleet, now: datetime = MONTH_LATER) -> list[str] | None:
    found = compare_filing(connection, fleet.company_id, Q4, fills_kept_days=None, now=now)
    return None if found is None else [one.in_words for one in found]


def fill_in_ohio(connection: Connection, fleet: Fleet, gallons: float) -> None:
    card_fill(connection, fleet, fleet.live, NEW_YEAR - timedelta(hours=20), gallons)
    connection.execute("UPDATE fills SET state = 'OH' WHERE company_id = %s", (fleet.company_id,))


def needs(connection: Connection, fleet: Fleet) -> list[str]:
    found = find_needs(connection, fleet.live, kinds=["ifta_changed"], now=MONTH_LATER)
    return [getattr(one, "path", "") for one in found.values()]


def test_a_filed_quarter_stays_and_late_fills_are_told_beside_it(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    route_id, _ = drive(connection, settings, fleet, NEW_YEAR - timedelta(hours=30))
    fill_in_ohio(connection, fleet, 60.0)
    before = report_of(connection, fleet, Q4)
    assert file_it(connection, fleet) == before
    assert compare(connection, fleet) == []

    connection.execute("UPDATE plans SET explanation = NULL WHERE route_id = %s", (route_id,))
    connection.execute("UPDATE vehicles SET mpg = 5 WHERE company_id = %s", (fleet.company_id,))
    assert report_of(connection, fleet, Q4).states != before.states, "the plan's own mpg is gone with its explanation"
    assert compare(connection, fleet) == [], "the leg is the one that was filed"
    assert needs(connection, fleet) == []

    fill_in_ohio(connection, fleet, 4.1)
    assert compare(connection, fleet) == ["OH +4.1 gal bought, +4.1 gal credited"]
    assert needs(connection, fleet) == [], "too little for an amended return"
    fill_in_ohio(connection, fleet, 80.0)
    assert compare(connection, fleet) == ["OH +84.1 gal bought, +84.1 gal credited"]
    assert needs(connection, fleet) == ["/ifta?quarter=2026Q4"]

    connection.execute("DELETE FROM visits WHERE route_id = %s AND stop = 2", (route_id,))
    moved = compare(connection, fleet)
    assert moved is not None
    assert any(one.startswith("NJ -") and " mi, -" in one for one in moved)
    assert filed(connection, fleet) == before

    delete_routes(connection, [route_id])
    assert compare(connection, fleet) is None, "retention is no change"
    filing = read_filing(connection, fleet.company_id, Q4)
    assert filing is not None
    assert filing.changes is not None
    assert [one.in_words for one in filing.changes] == moved, "those told before stay"


def test_filing_and_reopening_need_a_reason_and_are_audited(connection: Connection, fleet: Fleet) -> None:
    driven = find_quarter_routes(connection, fleet.company_id, Q4)
    with pytest.raises(NoReason):
        file_quarter(connection, driven, DOT._replace(reason=" "), now=NEW_YEAR)
    with pytest.raises(NotFiled, match="not over"):
        file_quarter(connection, find_quarter_routes(connection, fleet.company_id, Q1), WHY, now=NEW_YEAR)
    with pytest.raises(NotFiled, match="not filed"):
        reopen_quarter(connection, fleet.company_id, Q4, WHY, now=NEW_YEAR)
    file_it(connection, fleet)
    with pytest.raises(NotFiled, match="filed already"):
        file_it(connection, fleet)
    with pytest.raises(NoReason):
        reopen_quarter(connection, fleet.company_id, Q4, DOT._replace(reason=""), now=NEW_YEAR)
    reopen_quarter(connection, fleet.company_id, Q4, WHY, now=NEW_YEAR)
    assert read_filing(connection, fleet.company_id, Q4) is None
    file_it(connection, fleet)
    log = connection.execute(
        "SELECT action, subject, reason FROM audit_log WHERE company_id = %s AND action LIKE 'ifta%%' ORDER BY id",
        (fleet.company_id,),
    ).fetchall()
    acts = [("ifta.file", "quarter 2026Q4", WHY.reason), ("ifta.reopen", "quarter 2026Q4", WHY.reason)]
    assert [tuple(row) for row in log] == [*acts, acts[0]]
    other = make_fleet(connection)
    assert read_filing(connection, other.company_id, Q4) is None


def test_imports_do_not_wait_while_the_report_of_a_filing_is_made(database: Database) -> None:
    def lock(_: int) -> None:
        with database.transaction() as other:
            other.execute("SET LOCAL lock_timeout = '5s'")
            lock_company(other, fleet.company_id)
            locked.append(fleet.company_id)

    locked: list[UUID] = []
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        driven_without_a_plan(connection, fleet, NEW_YEAR - timedelta(days=30))
    with database.transaction() as connection:
        driven = find_quarter_routes(connection, fleet.company_id, Q4)
        file_quarter(connection, driven, WHY, now=NEW_YEAR, progress=lock)
        assert read_filing(connection, fleet.company_id, Q4) is not None
    assert locked == [fleet.company_id]


def test_each_filing_is_compared_once_a_day_while_its_records_must_be_kept(
    connection: Connection, fleet: Fleet
) -> None:
    connection.execute("DELETE FROM ifta_filings")
    due = partial(due_filings, connection, limit=9)
    assert due(now=NEW_YEAR) == []
    file_it(connection, fleet)
    assert due(now=NEW_YEAR) == [(fleet.company_id, "2026Q4")]
    compare(connection, fleet, NEW_YEAR)
    assert due(now=NEW_YEAR + timedelta(hours=23)) == []
    assert due(now=NEW_YEAR + timedelta(hours=25)) == [(fleet.company_id, "2026Q4")]
    assert due(now=NEW_YEAR + timedelta(days=5 * 366)) == []
    connection.execute("UPDATE ifta_filings SET changes = '[]', compared_at = NULL")
    assert compare_filing(connection, fleet.company_id, Q4, fills_kept_days=30, now=NEW_YEAR) is None, "fills are gone"


def test_a_rate_that_comes_after_the_filing_is_told(
    connection: Connection, fleet: Fleet, settings: Settings, csv_file: CsvFile
) -> None:
    drive(connection, settings, fleet, NEW_YEAR - timedelta(hours=30))
    before = file_it(connection, fleet)
    (there,) = (one for one in before.states if one.state == "NJ")
    assert before.totals.tax_credited_dollars is None, "no rate is known"
    assert compare(connection, fleet) == []

    store_tax_rows(connection, csv_file("state,rate_per_gallon,valid_from", "NJ,0.57,2026-10-01"), now=NEW_YEAR)

    owed = 0.57 * (there.gallons_burned - there.gallons_credited)
    assert owed > 1
    assert compare(connection, fleet) == [f"NJ +${owed:.2f} tax"]
    assert needs(connection, fleet) == ["/ifta?quarter=2026Q4"]
    connection.execute("DELETE FROM fuel_taxes")
    assert compare(connection, fleet) == [], "what is not known is no change"


LINES = st.lists(
    st.builds(
        lambda state, miles, burned, credited, tax: StateLine(
            state, miles / 100, burned / 100, 0.0, None, None, None, 0.0, credited / 100, tax and tax / 100
        ),
        st.sampled_from(["IL", "IN", "OH"]),
        *[st.integers(0, 10**6)] * 3,
        st.none() | st.integers(-(10**5), 10**5),
    ),
    max_size=3,
    unique_by=lambda line: line.state,
)


@hypothesis_settings(max_examples=examples(50), deadline=None)
@given(LINES, LINES)
def test_what_was_filed_and_its_changes_are_what_is_known_now(filed: list[StateLine], now: list[StateLine]) -> None:
    changes = {one.state: one for one in state_changes(filed, now)}
    for column in ("miles", "gallons_burned", "gallons_credited"):
        before, after = ({line.state: getattr(line, column) for line in lines} for lines in (filed, now))
        for state in ("IL", "IN", "OH"):
            corrected = getattr(changes[state], column) if state in changes else 0.0
            assert before.get(state, 0.0) + corrected == pytest.approx(after.get(state, 0.0), abs=0.001)


def test_a_person_is_needed_for_more_than_rounding() -> None:
    small = StateChange("TX", 10.0, -5.0, 0.0, 5.0, None)
    assert not small.is_large
    assert small._replace(miles=-10.1).is_large
    assert small._replace(gallons_burned=5.1).is_large
    assert small._replace(tax_credited_dollars=-1.01).is_large
    assert small._replace(miles=12.34, gallons_burned=0, gallons_credited=0, gallons_bought=4.1).in_words == (
        "TX +12.3 mi, +4.1 gal bought"
    )

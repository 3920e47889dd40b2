"""The passes that compare trips with habits, make statements of savings, and compare filed quarters: each thing once,
whatever dies between."""

from datetime import datetime, timedelta

import pytest

from domain.ifta.driven_routes import find_quarter_routes
from domain.ifta.filings import file_quarter, read_filing
from domain.ifta.quarters import Quarter
from domain.notices.subscriptions import STATEMENTS
from domain.savings.statements import newest_due_month
from scheduler import passes as scheduled
from scheduler.passes import Passes
from tests.domain.notices.subscriptions import notices_of, subscribe
from tests.domain.savings.sent_plans import store_sent_plan
from tests.factories import DOT, Fleet, make_fleet


@pytest.fixture
def fleet(passes: Passes, now: datetime) -> Fleet:
    """A company with a plan in the month whose statement is due, and somebody who wants it."""
    month = newest_due_month(now, "UTC", 5)
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        store_sent_plan(connection, fleet.live, None, now=now.replace(year=month.year, month=month.month, day=15))
        subscribe(connection, fleet.company_id, kinds=(STATEMENTS.kind,))
    return fleet


def made_and_told(passes: Passes, fleet: Fleet) -> tuple[int, int]:
    with passes.database.transaction() as connection:
        found = connection.execute("SELECT 1 FROM savings_statements WHERE company_id = %s", (fleet.company_id,))
        return len(found.fetchall()), len(notices_of(connection, fleet.company_id))


def test_a_statement_is_made_and_told_once_although_a_pass_dies_between(
    passes: Passes, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes.make_statements()
    assert made_and_told(passes, fleet) == (0, 0), "its trip was not compared with habits yet"
    passes.compare_habits()
    with monkeypatch.context() as broken:
        broken.setattr(scheduled, "tell_statement", None)
        passes.make_statements()
    assert made_and_told(passes, fleet) == (0, 0), "neither without the other"
    passes.make_statements()
    passes.make_statements()
    assert made_and_told(passes, fleet) == (1, 1)


def test_a_filed_quarter_is_compared(passes: Passes, fleet: Fleet, now: datetime) -> None:
    quarter = Quarter((now - timedelta(days=400)).year, 1)
    with passes.database.transaction() as connection:
        connection.execute("DELETE FROM ifta_filings")
        driven = find_quarter_routes(connection, fleet.company_id, quarter)
        file_quarter(connection, driven, DOT._replace(reason="confirmation 4711"), now=now)
    assert passes.compare_filings() == {"quarters_compared": 1}
    with passes.database.transaction() as connection:
        filing = read_filing(connection, fleet.company_id, quarter)
    assert filing is not None
    assert filing.changes == []


def test_a_filing_that_cannot_be_compared_keeps_no_other_one_waiting(passes: Passes, now: datetime) -> None:
    quarter = Quarter((now - timedelta(days=400)).year, 1)
    with passes.database.transaction() as connection:
        connection.execute("DELETE FROM ifta_filings")
        broken, *others = (make_fleet(connection).company_id for _ in range(4))
        for company_id in (broken, *others):
            driven = find_quarter_routes(connection, company_id, quarter)
            file_quarter(connection, driven, DOT._replace(reason="confirmation 4711"), now=now)
        connection.execute("UPDATE ifta_filings SET legs = 'torn' WHERE company_id = %s", (broken,))

    assert [passes.compare_filings()["quarters_compared"] for _ in range(2)] == [3, 0]

    with passes.database.transaction() as connection:
        filings = {one: read_filing(connection, one, quarter) for one in (broken, *others)}
        assert [one for one, filing in filings.items() if filing is None or filing.compared_at is None] == [broken]
        connection.execute("DELETE FROM ifta_filings")

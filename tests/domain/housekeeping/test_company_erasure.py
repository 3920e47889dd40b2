"""After a company's erasure no table holds anything of it but the fact of the erasure."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.accounts.companies import UnknownCompany
from domain.accounts.keys import PresentedKey, create_key, find_callers
from domain.database.connections import Database
from domain.housekeeping import erasure
from domain.housekeeping.erasure import erase_company
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.notices.noticing import tell_company
from domain.routes.intake.imports import import_routes
from domain.settings import Settings
from domain.webhooks.deliveries import Outcome, claim_deliveries, settle_deliveries
from domain.webhooks.delivery_log import send_test
from tests.domain.helpers import positions_at, post, pushed
from tests.domain.housekeeping.traces import COMPANY, PERSON, driven, route_of, traces
from tests.domain.notices.subscriptions import subscribe
from tests.domain.requests.entries import entry_of, new_caller, push_of, store
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, JOLIET, Fleet
from tests.rows import named
from tests.service import eventually

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


def test_only_the_fact_of_its_erasure_stays_of_a_company(
    database: Database, company: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "_PORTION", 2)
    monkeypatch.setattr(erasure, "_REQUESTS", 2)
    with database.transaction() as connection:
        key = create_key(
            connection, company.company_id, DOT, name="qh key", environment=Environment.LIVE, scopes=["routes:read"]
        ).key
        caller = new_caller(connection, company.company_id)
        store(connection, [entry_of(push_of(f"QH-LOAD-{number}"), caller=caller) for number in range(5)])
        driven(connection, company.sandbox, company, settings, now=now)
        for number in range(4):
            route_of(connection, company.live, now=now, externalId=f"QH-LOAD-{number}")
        post(connection, company.live, positions_at(JOLIET, now, unit_number="QH-UNIT-7"), now=now)
    with database.transaction() as connection:
        assert {mark for _, mark in traces(connection, *COMPANY)} == set(COMPANY)
    portions: list[int] = []

    erase_company(database.transaction, company.company_id, now=now, progress=portions.append)
    erase_company(database.transaction, company.company_id, now=now)  # again is fine

    assert portions == [2, 2, 1]
    with database.transaction() as connection:
        assert traces(connection, *COMPANY, *PERSON, *company.trucks, *company.drivers, caller.key_id) == []
        assert traces(connection, company.company_id) == [("erasures", company.company_id)]
        assert find_callers([PresentedKey.of(key)]).on(connection) == [None]


def test_rows_that_a_request_in_flight_stores_are_erased_too(
    database: Database, company: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase_rest, late = erasure._erase_rest, iter([True])

    def after_a_late_push(*arguments: Any) -> None:
        if next(late, False):
            with database.transaction() as connection:
                pushed(connection, company.live, now=now, start=now, externalId="QH-LOAD-late")
                post(connection, company.live, positions_at(JOLIET, now, unit_number="QH-UNIT-7"), now=now)
        erase_rest(*arguments)

    monkeypatch.setattr(erasure, "_erase_rest", after_a_late_push)
    erase_company(database.transaction, company.company_id, now=now)

    with database.transaction() as connection:
        assert traces(connection, *COMPANY, *company.trucks) == []


def test_an_import_in_flight_leaves_no_route_of_a_vehicle_that_is_gone(
    database: Database, company: Fleet, now: datetime
) -> None:
    person = {"name": "Zoë Quartermain"}
    with database.transaction() as connection:
        route_id = pushed(
            connection, company.live, now=now, start=now, vehicle={"unitNumber": "QH-UNIT-7"}, driver=person
        )
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as importing:
            outcomes = import_routes(importing, [route_id], now=now)
            erasing = threads.submit(erase_company, database.transaction, company.company_id, now=now)
            eventually(lambda: named(importing).execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
        erasing.result()

    assert outcomes[route_id].vehicle_id == company.trucks[0]
    with database.transaction() as connection:
        assert traces(connection, route_id, *company.trucks, *company.drivers) == []


def test_a_company_that_a_backup_brought_back_is_erased_again(
    database: Database, company: Fleet, now: datetime
) -> None:
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO erasures (subject_id, erased_at) VALUES (%s, %s)",
            (company.company_id, now - timedelta(days=1)),
        )

    erase_company(database.transaction, company.company_id, now=now)

    with database.transaction() as connection:
        assert traces(connection, *COMPANY, *PERSON) == []
        erased = (
            named(connection)
            .execute("SELECT erased_at FROM erasures WHERE subject_id = %s", (company.company_id,))
            .fetchone()
        )
        assert erased == (now,)


def test_an_unknown_company_cannot_be_erased(database: Database, now: datetime) -> None:
    with pytest.raises(UnknownCompany):
        erase_company(database.transaction, new_id(), now=now)


def test_nothing_of_its_webhooks_stays(database: Database, company: Fleet, settings: Settings, now: datetime) -> None:
    with database.transaction() as connection:
        endpoint = make_endpoint(connection, company.live, "https://qh.example.com/").endpoint
        route_of(connection, company.live, now=now)
        send_test(connection, company.company_id, endpoint.id, DOT, now=now)
        later = now + timedelta(minutes=1)
        batch = claim_deliveries(connection, endpoint.id, most=9, settings=settings, now=later)
        assert batch is not None
        outcomes = [Outcome(one, now, 1.0, 500, "it answered 500", "qh.example.com") for one in batch.claimed]
        settle_deliveries(connection, endpoint.id, outcomes, settings=settings, now=later)
        assert len(traces(connection, endpoint.id)) == 4

    erase_company(database.transaction, company.company_id, now=now)

    with database.transaction() as connection:
        assert traces(connection, endpoint.id, "qh.example.com") == []
        assert traces(connection, company.company_id) == [("erasures", company.company_id)]


def test_nothing_of_its_notices_stays_whatever_a_pass_tells_meanwhile(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    with database.transaction() as connection:
        subscription = subscribe(connection, company.company_id, name="the qh desk", kinds=("vehicle_unmapped",))
        route_of(connection, company.live, now=now, vehicle={"unitNumber": "unknown"})
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            assert tell_company(
                connection, company.company_id, console="https://qh.example.com", end_after=timedelta(), now=now
            ).due
            erasing = threads.submit(erase_company, database.transaction, company.company_id, now=now)
            eventually(lambda: connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
        erasing.result()

    with database.transaction() as connection:
        assert traces(connection, subscription.id, "qh.example.com", "qh desk") == []
        assert traces(connection, company.company_id) == [("erasures", company.company_id)]

"""After a driver's erasure no table tells who it was: every row of the database is searched."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import psycopg
import pytest

from domain.accounts.companies import create_company
from domain.accounts.policy import Policy
from domain.accounts.saved_filters import list_saved_filters, save_filter
from domain.accounts.users import list_users
from domain.contract.shapes import FuelPlan
from domain.database.connections import Connection, Database
from domain.database.fence import MovedCompany
from domain.database.options import COMMANDING
from domain.driver_page.answers import take_answer
from domain.driver_page.given_answers import ImpossibleAnswer
from domain.fleet.drivers import DriverRow
from domain.fleet.mappings import remove_mapping
from domain.fleet.records import UnknownTarget
from domain.housekeeping import erasure
from domain.housekeeping.erasure import erase_company, erase_driver
from domain.messages.gateways import Fault
from domain.messages.message_life import MessageClaim
from domain.operations import import_records
from domain.roads import Point
from domain.routes import events
from domain.routes.intake.fleet_changes import add_mapping, edit_driver, import_drivers
from domain.routes.intake.holds import expire_held_routes
from domain.routes.intake.imports import import_routes
from domain.routes.intake.retiring import StillDriving, retire
from domain.routes.plans.delivery import finish_delivery, start_delivery
from domain.routes.progress.dispatcher_entries import enter_stop_event
from domain.routes.reading.lookups import read_routes
from domain.routes.transitions import cancel_route
from domain.routes.visits import load_visits
from domain.settings import Settings
from domain.stations.closures import closures_in_force, mark_closed
from domain.telematics.arrivals import ManualStopEvent
from domain.webhooks.deliveries import DeliveryClaim, Outcome, claim_deliveries, settle_deliveries
from domain.webhooks.delivery_log import read_delivery
from domain.webhooks.endpoints import Endpoint
from tests.domain.driver_page.given import AnsweredTrip, link_to
from tests.domain.helpers import planned_by_hand, pushed, route_row, status_of
from tests.domain.housekeeping.traces import COMPANY, PERSON, driven, route_of, traces
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, Fleet
from tests.rows import blocked_by, named
from tests.service import eventually

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


def test_only_bookkeeping_figures_of_an_erased_driver_stay(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    with database.transaction() as connection:
        finished = driven(connection, company.sandbox, company, settings, now=now)
        draft = route_of(connection, company.live, now=now, driver={"name": "Q. ZOE"})
        waiting = route_of(
            connection, company.live, now=now, vehicle={"unitNumber": "?"}, driver={"externalId": "EMP-4711"}
        )
        never_tried = pushed(connection, company.live, now=now, start=now, driver={"name": "Zoë Quartermain"})
        expired = expired_before_she_was_known(connection, company, now)
        others = route_of(connection, company.live, now=now, driver={"name": "Cy Oh"})
    with database.transaction() as connection:
        assert {text for _, text in traces(connection, *PERSON)} == set(PERSON)
        ((before),) = read_routes([(company.sandbox, finished)]).on(connection)

    count = erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)

    assert count == 5
    with database.transaction() as connection:
        assert traces(connection, *PERSON) == []
        ((after),) = read_routes([(company.sandbox, finished)]).on(connection)
        assert before is not None
        assert after is not None
        assert isinstance(after.route.fuel_plan, FuelPlan)
        assert (after.route.fuel_plan, after.route.stops) == (before.route.fuel_plan, before.route.stops)
        assert (after.route.driver.id, after.route.driver.name) == (company.shown_drivers[0], None)
        assert after.version != before.version
        assert {status_of(connection, one) for one in (draft, waiting, never_tried)} == {"canceled"}
        assert route_row(connection, draft).closed_reason == erasure.ERASED
        assert status_of(connection, expired) == "error"
        assert status_of(connection, others) == "draft"
        (message,) = named(connection).execute("SELECT * FROM messages WHERE route_id = %s", (finished,)).fetchall()
        assert (message.status, message.text) == ("suppressed", None)
        assert (
            named(connection).execute("SELECT FROM erasures WHERE subject_id = %s", (company.drivers[0],)).rowcount == 1
        )


def waiting_under(connection: Connection, company: Fleet, now: datetime, **driver: str) -> UUID:
    """A route whose import has not run yet, so it is matched to no driver."""
    return pushed(connection, company.live, now=now, start=now, driver=driver)


@pytest.mark.parametrize("how", ["mapped", "retired", "mapping removed", "mapped to another", "renamed", "imported"])
def test_the_names_of_a_driver_are_erased_from_routes_that_were_never_matched(
    database: Database, company: Fleet, tmp_path: Path, now: datetime, how: str
) -> None:
    zoe, cy = company.drivers
    with database.transaction() as connection:
        held = waiting_under(connection, company, now, name="Q. ZOE")
        canceled = waiting_under(connection, company, now, name="Q. ZOE")
        cancel_route(connection, company.live, canceled, now=now)
        by_id = waiting_under(connection, company, now, externalId="EMP-4711")
        (before,) = read_routes([(company.live, canceled)]).on(connection)
    with database.transaction() as connection:
        if how == "retired":
            retire(connection, company.company_id, "driver", zoe, DOT, force=False, now=now)
        elif how == "mapping removed":
            remove_mapping(connection, company.company_id, "driver_name", "Q. ZOE", DOT)
        elif how == "mapped to another":
            add_mapping(connection, company.company_id, "driver_name", "Q. ZOE", cy, DOT)
            remove_mapping(connection, company.company_id, "driver_name", "Q. ZOE", DOT)
        elif how == "renamed":
            row = DriverRow(name="Zoë Married", external_id="EMP-1")
            edit_driver(connection, company.company_id, zoe, row, DOT, keep_contact=True)
        elif how == "imported":
            (tmp_path / "again.csv").write_text("name,external_id\nZoë Married,EMP-4711\n")
            import_drivers(connection, company.company_id, tmp_path / "again.csv")
            by_name = waiting_under(connection, company, now, name="Zoë Quartermain")

    erase_driver(database.transaction, company.company_id, zoe, force=False, now=now)

    with database.transaction() as connection:
        assert traces(connection, *PERSON, "Zoë Married") == []
        assert {status_of(connection, one) for one in (held, canceled, by_id)} == {"canceled"}
        if how == "imported":
            assert status_of(connection, by_name) == "canceled"
        (after,) = read_routes([(company.live, canceled)]).on(connection)
        assert before is not None
        assert after is not None
        assert after.route.driver.name is None
        assert after.version != before.version


def test_a_name_that_now_means_another_driver_is_not_erased(database: Database, company: Fleet, now: datetime) -> None:
    zoe, cy = company.drivers
    with database.transaction() as connection:
        held = waiting_under(connection, company, now, name="Q. ZOE")
        both = waiting_under(connection, company, now, name="Q. ZOE", externalId="EMP-4711")
        add_mapping(connection, company.company_id, "driver_name", "Q. ZOE", cy, DOT)

    erase_driver(database.transaction, company.company_id, zoe, force=False, now=now)

    with database.transaction() as connection:
        assert status_of(connection, held) == "pending"
        assert status_of(connection, both) == "canceled"
        assert traces(connection, "EMP-4711", "Quartermain,") == []


def test_texts_about_an_erased_driver_go_and_similar_texts_stay(
    database: Database, company: Fleet, now: datetime
) -> None:
    zoe = company.drivers[0]
    with database.transaction() as connection:
        add_mapping(connection, company.company_id, "driver_name", "7", zoe, DOT)
        add_mapping(connection, company.company_id, "driver_name", "D", zoe, DOT)
        edit_driver(connection, company.company_id, zoe, DriverRow(name="Al", external_id="7"), DOT, keep_contact=True)
        canceled, other = (route_of(connection, company.live, now=now, driver={"name": "Cy Oh"}) for _ in range(2))
        cancel_route(connection, company.live, canceled, now=now, reason="Al is ill")
        cancel_route(connection, company.live, other, now=now, reason="Held until 7 days past: d alas")
        events.record_event(connection, other, "send_again", "zoë q. called", by="dot@example.com", now=now)

    erase_driver(database.transaction, company.company_id, zoe, force=False, now=now)

    with database.transaction() as connection:
        assert route_row(connection, canceled).closed_reason == erasure.NAMED
        assert route_row(connection, other).closed_reason == "Held until 7 days past: d alas"
        assert traces(connection, "zoë q. called") == []


def test_a_driver_is_erased_from_what_people_wrote_elsewhere(
    database: Database, company: Fleet, tmp_path: Path, settings: Settings, now: datetime
) -> None:
    """The reasons of a closed station and of an arrival on another driver's route, a saved filter, and the rows of a
    file that were refused."""
    said = DOT._replace(reason="Zoë Quartermain says so")
    until = now + timedelta(days=1)
    (tmp_path / "drivers.csv").write_text("name,name\nZoë Quartermain,Zoë Q.\n")
    with database.transaction() as connection:
        connection.execute("INSERT INTO stations (station_id, name, latitude, longitude) VALUES ('QH-1', 'x', 1, 1)")
        mark_closed(connection, "QH-1", company.company_id, until, said, now=now)
        others = route_of(connection, company.live, now=now, driver={"name": "Cy Oh"})
        enter_stop_event(connection, company.live, others, 0, "arrival", now, said, settings=settings, now=now)
        (user,) = list_users(connection, company.company_id)
        for name, query in (("mine", {"driver": "Zoë Quartermain"}), ("Zoë Q.", {"unit": "7"}), ("his", {"q": "Cy"})):
            save_filter(connection, company.company_id, user.id, "routes", name, urlencode(query))
        brought = import_records.begin(connection, company.company_id, "drivers", user.email, rows_total=1, now=now)
        report = import_drivers(connection, company.company_id, tmp_path / "drivers.csv")
        import_records.finish(connection, brought, report, now=now)
        assert {"station_closures", "visits", "saved_filters", "csv_imports"} <= {
            table for table, _ in traces(connection, *PERSON)
        }

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)

    with database.transaction() as connection:
        assert traces(connection, *PERSON, "Zo%C3%AB") == []
        (closure,) = closures_in_force(connection, company.company_id, station_id="QH-1", now=now)
        (filter_,) = list_saved_filters(connection, company.company_id, user.id, "routes")
        (visit,) = load_visits(connection, [others])[others].values()
        assert (closure.reason, filter_.name) == (erasure.NAMED, "his")
        assert visit.arrival == ManualStopEvent(DOT.name, erasure.NAMED, now)
        connection.execute("DELETE FROM station_closures WHERE station_id = 'QH-1'")
        connection.execute("DELETE FROM stations WHERE station_id = 'QH-1'")


def test_an_erasure_does_not_make_finished_routes_younger(database: Database, company: Fleet, now: datetime) -> None:
    """Their age counts from their end: what is older than the settings say goes."""
    with database.transaction() as connection:
        matched, held = (
            route_of(connection, company.live, now=now),
            waiting_under(connection, company, now, name="Q. ZOE"),
        )
        for one in (matched, held):
            cancel_route(connection, company.live, one, now=now)
        before = [route_row(connection, one).updated_at for one in (matched, held)]
        versions = [
            one.version for one in read_routes([(company.live, matched), (company.live, held)]).on(connection) if one
        ]

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)

    with database.transaction() as connection:
        assert traces(connection, *PERSON) == []
        assert [route_row(connection, one).updated_at for one in (matched, held)] == before
        after = [
            one.version for one in read_routes([(company.live, matched), (company.live, held)]).on(connection) if one
        ]
        assert all(one != other for one, other in zip(versions, after, strict=True))


def expired_before_she_was_known(connection: Connection, company: Fleet, now: datetime) -> UUID:
    """A route that became an error while it named a driver whom nobody knew: its reason names her."""
    connection.execute("UPDATE drivers SET name = 'x', external_id = 'x' WHERE id = %s", (company.drivers[0],))
    route_id = route_of(
        connection, company.live, now=now, start=now - timedelta(days=9), driver={"name": "Zoë Quartermain"}
    )
    expire_held_routes(connection, expiry_days=7, now=now)
    connection.execute(
        "UPDATE drivers SET name = %s, external_id = %s WHERE id = %s", (PERSON[0], PERSON[2], company.drivers[0])
    )
    assert PERSON[0] in route_row(connection, route_id).closed_reason
    return route_id


def test_a_driver_on_the_road_is_erased_only_by_force(database: Database, company: Fleet, now: datetime) -> None:
    with database.transaction() as connection:
        route_id = route_of(connection, company.live, now=now)
        connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))

    with pytest.raises(StillDriving):
        erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)
    with database.transaction() as connection:
        assert traces(connection, PERSON[0]) != []

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=True, now=now)
    with database.transaction() as connection:
        assert (status_of(connection, route_id), traces(connection, *PERSON)) == ("error", [])


def test_a_route_that_is_pushed_again_during_the_erasure_is_left_alone(
    database: Database, company: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A route in `error` comes back to life by a push: blank, it could never be imported."""
    with database.transaction() as connection:
        route_id = route_of(connection, company.live, now=now, externalId="QH-LOAD-1")
        connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))
    blank_routes = erasure._blank_routes

    def after_a_push(connection: Connection, route_ids: Any) -> None:
        with database.transaction() as pushing:
            again = pushed(pushing, company.live, now=now, start=now, externalId="QH-LOAD-1", driver={"name": "Cy Oh"})
            assert again == route_id
        blank_routes(connection, route_ids)

    monkeypatch.setattr(erasure, "_blank_routes", after_a_push)
    erase_driver(database.transaction, company.company_id, company.drivers[0], force=True, now=now)

    with database.transaction() as connection:
        assert route_row(connection, route_id).driver_name == "Cy Oh"
        assert traces(connection, *PERSON) == []


def test_texts_of_a_route_that_another_driver_has_taken_over_are_erased_too(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    """A planned route whose message went out while it was pushed again with another driver names her no more."""
    with database.transaction() as connection:
        route_id = route_of(connection, company.live, now=now, externalId="QH-LOAD-2")
        hers = planned_by_hand(connection, route_id, now=now)
        again = route_of(connection, company.live, now=now, externalId="QH-LOAD-2", driver={"name": "Cy Oh"})
        assert again == route_id
        connection.execute("UPDATE messages SET status = 'sent', error = NULL WHERE id = %s", (hers,))
        connection.execute("UPDATE messages SET taken_by = '{0123456789abcdef}' WHERE route_id = %s", (route_id,))
        his = planned_by_hand(connection, route_id, now=now)

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)

    with database.transaction() as connection:
        rows = (
            named(connection)
            .execute("SELECT id, text, taken_by FROM messages WHERE route_id = %s", (route_id,))
            .fetchall()
        )
        texts = {row.id: (row.text, row.taken_by) for row in rows}
    assert texts[hers] == (None, None)
    assert texts[his][0] is not None


def test_another_driver_of_the_same_name_keeps_routes_that_may_be_theirs(
    database: Database, company: Fleet, now: datetime
) -> None:
    with database.transaction() as connection:
        connection.execute("UPDATE drivers SET name = %s WHERE id = %s", (PERSON[0], company.drivers[1]))
        either = route_of(connection, company.live, now=now, driver={"name": PERSON[0]})
        assert status_of(connection, either) == "pending_mapping"

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)

    with database.transaction() as connection:
        import_routes(connection, [either], now=now)
        assert route_row(connection, either).driver_id == company.drivers[1]


def test_an_erasure_that_broke_off_can_be_repeated(
    database: Database, company: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.transaction() as connection:
        for _ in range(3):
            route_of(connection, company.live, now=now)
    monkeypatch.setattr(erasure, "_PORTION", 1)
    for erase in (
        lambda transaction: erase_driver(transaction, company.company_id, company.drivers[0], force=False, now=now),
        lambda transaction: erase_company(transaction, company.company_id, now=now),
    ):
        for transactions in (1, 2, 3):
            with pytest.raises(psycopg.OperationalError):
                erase(breaking_after(database, transactions))
        erase(database.transaction)

    with database.transaction() as connection:
        assert traces(connection, *PERSON, *COMPANY) == []


def test_an_erasure_stops_where_its_company_leaves_for_another_cell(
    database: Database, company: Fleet, now: datetime
) -> None:
    """Nothing that it changes behind the fence reaches the other cell."""
    transactions = iter(range(9))

    @contextmanager
    def while_it_leaves() -> Iterator[Connection]:
        with database.transaction() as connection:
            if next(transactions) == 1:
                connection.execute(
                    "INSERT INTO company_moves (company_id, other_cell, stage, holds_until)"
                    " VALUES (%s, 2, 'fenced', 'infinity')",
                    (company.company_id,),
                )
            yield connection

    with pytest.raises(MovedCompany):
        erase_driver(while_it_leaves, company.company_id, company.drivers[0], force=False, now=now)
    with database.transaction() as connection:
        connection.execute("DELETE FROM company_moves WHERE company_id = %s", (company.company_id,))
        asked = "SELECT FROM erasures WHERE subject_id = %s"
        assert connection.execute(asked, (company.drivers[0],)).rowcount == 0, "it has to be given again"


def breaking_after(database: Database, transactions: int) -> Any:
    left = iter(range(transactions))

    def transaction() -> Any:
        if next(left, None) is None:
            raise psycopg.OperationalError("the server went away")
        return database.transaction()

    return transaction


def test_a_driver_of_another_company_cannot_be_erased(database: Database, company: Fleet, now: datetime) -> None:
    with database.transaction() as connection:
        other = create_company(connection, Policy(name="Other"))
    with pytest.raises(UnknownTarget):
        erase_driver(database.transaction, other, company.drivers[0], force=True, now=now)


def claimed_delivery(
    connection: Connection, company: Fleet, settings: Settings, *, now: datetime
) -> tuple[Endpoint, DeliveryClaim]:
    """An endpoint, and the delivery of a route with the driver's name, claimed by a worker a minute later."""
    endpoint = make_endpoint(connection, company.live).endpoint
    route_of(connection, company.live, now=now)
    batch = claim_deliveries(connection, endpoint.id, most=9, settings=settings, now=now + timedelta(minutes=1))
    assert batch is not None
    (claimed,) = batch.claimed
    return endpoint, claimed


def test_a_driver_is_erased_from_webhooks_and_their_answers(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    """A delivery that is still to be made tells of the route as it is then."""
    later = now + timedelta(minutes=1)
    with database.transaction() as connection:
        endpoint, claimed = claimed_delivery(connection, company, settings, now=now)
        assert "Zoë Quartermain" in claimed.payload
        echoed = Outcome(claimed, now, 1.0, 500, "it answered 500", "no room for Zoë Quartermain")
        settle_deliveries(connection, endpoint.id, [echoed], settings=settings, now=later)

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)

    with database.transaction() as connection:
        assert traces(connection, *PERSON) == []
        again = claim_deliveries(connection, endpoint.id, most=9, settings=settings, now=later + timedelta(hours=1))
        assert again is not None
        assert again.claimed[0].event_id == claimed.event_id
        assert "Zoë" not in again.claimed[0].payload
        (attempt,) = read_delivery(connection, company.company_id, endpoint.id, claimed.event_id).attempts
        assert attempt.answer == erasure.NAMED


@pytest.mark.parametrize("is_prepared_anew", [False, True])
def test_an_answer_of_an_endpoint_that_comes_after_the_erasure_is_not_kept(
    database: Database, company: Fleet, settings: Settings, now: datetime, is_prepared_anew: bool
) -> None:
    """The event was on its way meanwhile, and an endpoint may repeat what it gets."""
    later = now + timedelta(minutes=1)
    with database.transaction() as connection:
        endpoint, claimed = claimed_delivery(connection, company, settings, now=now)

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=False, now=now)

    with database.transaction() as connection:
        if is_prepared_anew:  # by a worker to which the claim of the first one has run out
            assert claim_deliveries(connection, endpoint.id, most=9, settings=settings, now=later + timedelta(hours=1))
        echoed = Outcome(claimed, now, 1.0, 200, None, "got Zoë Quartermain")
        settle_deliveries(connection, endpoint.id, [echoed], settings=settings, now=later)
        assert traces(connection, *PERSON) == []
        details = read_delivery(connection, company.company_id, endpoint.id, claimed.event_id)
        assert details.attempts[0].answer is None
        assert details.delivery.status == ("pending" if is_prepared_anew else "delivered")


def test_an_answer_of_an_endpoint_that_comes_during_the_erasure_is_not_kept(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    """The erasure has found the payload, and its next statement does not see the answer yet."""
    later = now + timedelta(minutes=1)
    with database.transaction() as connection:
        endpoint, claimed = claimed_delivery(connection, company, settings, now=now)
    echoed = [Outcome(claimed, now, 1.0, 200, None, "got Zoë Quartermain")]

    def settle() -> None:
        with database.transaction(limits=COMMANDING) as connection:
            settle_deliveries(connection, endpoint.id, echoed, settings=settings, now=later)

    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as erasing:
            of_company = (company.company_id,)
            erasing.execute("SELECT FROM webhook_events WHERE company_id = %s FOR UPDATE", of_company)
            erasing.execute("UPDATE webhook_events SET payload = NULL WHERE company_id = %s", of_company)
            settling = threads.submit(settle)
            eventually(lambda: settling.done() or blocked_by(erasing), bool)
        settling.result()

    with database.transaction() as connection:
        assert "webhook_attempts" not in {table for table, _ in traces(connection, *PERSON)}


def test_a_payload_that_is_prepared_between_the_steps_of_the_erasure_names_nobody(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    with database.transaction() as connection:
        endpoint = make_endpoint(connection, company.live).endpoint
        route_of(connection, company.live, now=now)
    hours = count(1)

    @contextmanager
    def beside_a_worker() -> Iterator[Connection]:
        with database.transaction() as connection:
            yield connection
        with database.transaction() as working:
            later = now + timedelta(hours=next(hours))
            claim_deliveries(working, endpoint.id, most=9, settings=settings, now=later)

    erase_driver(beside_a_worker, company.company_id, company.drivers[0], force=False, now=now)

    with database.transaction() as connection:
        assert traces(connection, *PERSON) == []


def test_a_payload_that_is_prepared_during_the_erasure_does_not_stay(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    """The worker has read the route with the driver's name, and stores the payload after the erasure has begun."""
    with database.transaction() as connection:
        endpoint = make_endpoint(connection, company.live).endpoint
        route_of(connection, company.live, now=now)
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as claiming:
            later = now + timedelta(minutes=1)
            batch = claim_deliveries(claiming, endpoint.id, most=9, settings=settings, now=later)
            patient = partial(database.transaction, limits=COMMANDING)  # as the command
            erasing = threads.submit(
                erase_driver, patient, company.company_id, company.drivers[0], force=False, now=now
            )
            eventually(lambda: erasing.done() or blocked_by(claiming), bool)
        erasing.result()

    assert batch is not None
    assert "Zoë Quartermain" in batch.claimed[0].payload
    with database.transaction() as connection:
        assert traces(connection, *PERSON) == []


def test_an_attempt_that_ends_after_the_erasure_leaves_no_recipient(
    database: Database, company: Fleet, settings: Settings, now: datetime
) -> None:
    with database.transaction() as connection:
        route_id = route_of(connection, company.live, now=now)
        message_id = planned_by_hand(connection, route_id, now=now)
        claimed = start_delivery(connection, message_id, settings=settings, now=now)
        assert isinstance(claimed, MessageClaim)

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=True, now=now)

    claimed.recipients.taken_by.append("0123456789abcdef")
    with database.transaction() as connection:
        finish_delivery(connection, claimed, Fault("the gateway refused it"), settings=settings, now=now)
        asked = "SELECT text, taken_by FROM messages WHERE id = %s"
        assert connection.execute(asked, (message_id,)).fetchone() == (None, None)
        assert traces(connection, *PERSON) == []


def test_an_answer_that_was_on_its_way_during_the_erasure_is_not_kept(
    database: Database, company: Fleet, now: datetime
) -> None:
    with database.transaction() as connection:
        route_id = route_of(connection, company.live, now=now)
        planned_by_hand(connection, route_id, now=now)
        trip = AnsweredTrip(connection, route_id, route_row(connection, route_id).plan_id, now)
        link = link_to(connection, trip.route_id)
        given = trip.given(place=Point(41.0, -88.0))
    with database.transaction() as connection:
        take_answer(connection, link, trip.given(), now=now)

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=True, now=now)

    with database.transaction() as connection:
        with pytest.raises(ImpossibleAnswer):
            take_answer(connection, link, given, now=now)
        assert connection.execute("SELECT FROM driver_answers WHERE route_id = %s", (trip.route_id,)).rowcount == 0


def test_the_answers_of_an_erased_driver_go_and_so_does_what_came_of_the_stops(
    database: Database, company: Fleet, now: datetime
) -> None:
    counted = (
        "SELECT (SELECT count(*) FROM driver_answers WHERE driver_id = %(id)s)"
        " + (SELECT count(*) FROM told_stops WHERE driver_id = %(id)s)"
    )
    with database.transaction() as connection:
        route_id = route_of(connection, company.live, now=now)
        planned_by_hand(connection, route_id, now=now)
        connection.execute(
            "INSERT INTO driver_answers (id, company_id, environment, route_id, driver_id, plan_id, sequence, key,"
            " kind, place, answered_at, is_late) SELECT gen_random_uuid(), company_id, environment, id, driver_id,"
            " plan_id, 0, 'key', 'going', 'x', %s, false FROM routes WHERE id = %s",
            (now, route_id),
        )
        connection.execute(
            "INSERT INTO told_stops (route_id, number, company_id, environment, planned_at, driver_id, plan_id, place,"
            " planned_gallons, planned_cents) SELECT id, 1, company_id, environment, %s, driver_id, plan_id, 'x', 1, 1"
            " FROM routes WHERE id = %s",
            (now, route_id),
        )
        assert connection.execute(counted, {"id": company.drivers[0]}).fetchone() == (2,)

    erase_driver(database.transaction, company.company_id, company.drivers[0], force=True, now=now)

    with database.transaction() as connection:
        assert connection.execute(counted, {"id": company.drivers[0]}).fetchone() == (0,)
        assert route_row(connection, route_id).status != "active"

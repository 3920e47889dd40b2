"""People are told once that a need began, and once that it ended: not too early, not at night, not each route alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg import Rollback

from domain.accounts.contacts import IN_CLEAR
from domain.database.connections import Connection, Database
from domain.messages.gateways import Fault
from domain.needs.route_needs import MOST_OF_A_NEED
from domain.notices import notice_life
from domain.notices.notice_life import NoticeClaim
from domain.notices.noticing import DOUBT, OVER, UNWANTED, companies_to_tell
from domain.notices.subscriptions import (
    change_subscription,
    disable_subscription,
    enable_subscription,
    remove_subscription,
)
from domain.settings import Settings
from domain.stations.price_sources import note_poll, read_source
from tests.domain.helpers import imported, late_source
from tests.domain.notices.subscriptions import END_AFTER, HERE, VALUES, look, look_until_over, notices_of, subscribe
from tests.factories import DOT, Fleet, make_fleet

NOW = datetime(2026, 11, 24, 18, tzinfo=UTC)  # noon in Chicago
MINUTE = timedelta(minutes=1)
NIGHT: dict[str, Any] = {"quiet_from": 22 * 60, "quiet_until": 6 * 60}


def unmapped(connection: Connection, fleet: Fleet, *loads: str) -> None:
    """Routes that wait for a vehicle that the fleet does not know."""
    for load in loads:
        imported(connection, fleet.live, now=NOW, externalId=load, vehicle={"unitNumber": "9999"})


def mapped(connection: Connection, fleet: Fleet) -> None:
    connection.execute(
        "UPDATE routes SET status = 'draft' WHERE company_id = %s AND status = 'pending_mapping'", (fleet.company_id,)
    )


def send(connection: Connection, fleet: Fleet, told: Any, settings: Settings, now: datetime) -> list[str]:
    """Does the jobs as a worker does, with a gateway that takes everything. Gives the texts."""
    texts = []
    for notice_id in told.due:
        claimed = notice_life.claim_notice(connection, fleet.company_id, notice_id, settings=settings, now=now)
        if claimed is not None:
            texts.append(claimed.text)
            assert notice_life.settle_notice(connection, claimed, None, now=now) == "sent"
    return texts


def test_many_of_a_kind_are_one_notice_that_leads_to_its_page(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id)
    unmapped(connection, fleet, "LOAD-1", "LOAD-2", "LOAD-3", "LOAD-4", "LOAD-5")

    (text,) = send(connection, fleet, look(connection, fleet.company_id, NOW), settings, NOW)

    title, which, page = text.split("\n")
    assert title == "Acme: 5 routes wait for vehicles that the fleet does not know"
    assert which.endswith(" and 2 more")
    assert which.count("LOAD-") == 3
    assert page == "https://console.example.com/matching/vehicles"


def test_a_need_is_told_once_however_it_grows_and_its_end_once(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id)
    assert not look(connection, fleet.company_id, NOW).due
    unmapped(connection, fleet, "LOAD-1")
    (began,) = send(connection, fleet, look(connection, fleet.company_id, NOW), settings, NOW)
    assert began.startswith("Acme: 1 route waits for a vehicle")
    unmapped(connection, fleet, "LOAD-2", "LOAD-3")
    for minutes in (1, 2, 600):
        assert not look(connection, fleet.company_id, NOW + minutes * MINUTE).due

    mapped(connection, fleet)
    later = NOW + 601 * MINUTE
    (ended,) = send(connection, fleet, look_until_over(connection, fleet.company_id, later), settings, later)
    assert ended.split("\n")[:2] == [
        "Acme: over. No route waits for an unknown vehicle any more",
        "It began Nov 24, 12:00 CST.",
    ]
    assert not look(connection, fleet.company_id, later + MINUTE).due

    unmapped(connection, fleet, "LOAD-9")
    assert send(connection, fleet, look(connection, fleet.company_id, later), settings, later), "it is another one"


def test_a_need_that_comes_and_goes_is_one_notice(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    subscribe(connection, fleet.company_id)
    now, texts = NOW, list[str]()
    for number in range(5):
        unmapped(connection, fleet, f"LOAD-{number}")
        texts += send(connection, fleet, look(connection, fleet.company_id, now), settings, now)
        mapped(connection, fleet)
        for minutes in (1, 9):
            texts += send(connection, fleet, look(connection, fleet.company_id, now + minutes * MINUTE), settings, now)
        now += 10 * MINUTE
    assert len(texts) == 1
    now += END_AFTER
    texts += send(connection, fleet, look(connection, fleet.company_id, now), settings, now)
    assert [text.split("\n")[0] for text in texts[1:]] == ["Acme: over. No route waits for an unknown vehicle any more"]


def test_each_kind_waits_for_its_own_minutes(connection: Connection, fleet: Fleet) -> None:
    subscribe(connection, fleet.company_id, after_minutes=30, minutes_by_kind={"error": 5})
    unmapped(connection, fleet, "LOAD-1")
    failed = imported(connection, fleet.live, now=NOW, externalId="FAILED")
    connection.execute("UPDATE routes SET status = 'error' WHERE id = %s", (failed,))
    due = [len(look(connection, fleet.company_id, NOW + minutes * MINUTE).due) for minutes in (0, 4, 5, 29, 30)]
    assert due == [0, 0, 1, 1, 2]


def test_a_need_that_ends_soon_is_told_to_nobody(connection: Connection, fleet: Fleet) -> None:
    subscribe(connection, fleet.company_id, after_minutes=10)
    unmapped(connection, fleet, "LOAD-1")
    for minutes in (0, 9):
        assert not look(connection, fleet.company_id, NOW + minutes * MINUTE).due
    mapped(connection, fleet)

    assert not look(connection, fleet.company_id, NOW + 10 * MINUTE).due

    (notice,) = notices_of(connection, fleet.company_id)
    assert (notice.status, notice.error, notice.text) == ("dropped", OVER, None)


def test_a_need_that_lasts_is_told_when_it_has_lasted_long_enough(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id, after_minutes=10)
    unmapped(connection, fleet, "LOAD-1")
    look(connection, fleet.company_id, NOW)
    later = NOW + 10 * MINUTE
    assert len(send(connection, fleet, look(connection, fleet.company_id, later), settings, later)) == 1


def test_what_begins_at_night_is_told_in_the_morning_if_it_still_lasts(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id, **NIGHT)
    night = datetime(2026, 11, 25, 5, tzinfo=UTC)  # 23:00 in Chicago
    unmapped(connection, fleet, "LOAD-1")
    failed = imported(connection, fleet.live, now=NOW, externalId="FAILED")
    connection.execute("UPDATE routes SET status = 'error' WHERE id = %s", (failed,))
    for hours in range(7):
        assert not look(connection, fleet.company_id, night + timedelta(hours=hours)).due
    connection.execute("UPDATE routes SET status = 'canceled' WHERE id = %s", (failed,))

    morning = night + timedelta(hours=7)  # 06:00 in Chicago
    (text,) = send(connection, fleet, look(connection, fleet.company_id, morning), settings, morning)

    assert "1 route waits" in text


def test_the_end_waits_for_the_morning_too(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    subscribe(connection, fleet.company_id, **NIGHT)
    unmapped(connection, fleet, "LOAD-1")
    send(connection, fleet, look(connection, fleet.company_id, NOW), settings, NOW)
    mapped(connection, fleet)
    night = datetime(2026, 11, 25, 5, tzinfo=UTC)
    assert not look_until_over(connection, fleet.company_id, night).due
    unmapped(connection, fleet, "LOAD-2")
    morning = night + timedelta(hours=7)
    (ended,) = send(connection, fleet, look(connection, fleet.company_id, morning), settings, morning)
    (began,) = send(connection, fleet, look(connection, fleet.company_id, morning), settings, morning)
    assert "over." in ended
    assert "1 route waits" in began, "the end of the first comes before the beginning of the second"


def test_a_retry_waits_for_the_morning_too(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    subscribe(connection, fleet.company_id, **NIGHT)
    unmapped(connection, fleet, "LOAD-1")
    evening = datetime(2026, 11, 25, 3, 59, tzinfo=UTC)  # 21:59 in Chicago
    (notice_id,) = look(connection, fleet.company_id, evening).due
    assert (
        notice_life.claim_notice(connection, fleet.company_id, notice_id, settings=settings, now=evening + MINUTE)
        is None
    )
    assert not look(connection, fleet.company_id, evening + 5 * MINUTE).due
    assert look(connection, fleet.company_id, evening + timedelta(hours=9)).due == [notice_id]


def test_the_end_of_a_need_waits_for_the_attempt_that_is_under_way(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id)
    unmapped(connection, fleet, "LOAD-1")
    (notice_id,) = look(connection, fleet.company_id, NOW).due
    claimed = notice_life.claim_notice(connection, fleet.company_id, notice_id, settings=settings, now=NOW)
    assert claimed is not None
    mapped(connection, fleet)
    assert not look(connection, fleet.company_id, NOW).due
    notice_life.settle_notice(connection, claimed, None, now=NOW)
    over = NOW + END_AFTER
    (ended,) = send(connection, fleet, look_until_over(connection, fleet.company_id, over), settings, over)
    assert "over." in ended


def test_each_subscription_is_told_of_its_kinds(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    subscribe(connection, fleet.company_id, kinds=("error",))
    mine = subscribe(connection, fleet.company_id, kinds=("vehicle_unmapped",))
    unmapped(connection, fleet, "LOAD-1")
    look(connection, fleet.company_id, NOW)
    assert [one.subscription_id for one in notices_of(connection, fleet.company_id)] == [mine.id]


def test_sandbox_routes_and_those_of_others_tell_nobody(connection: Connection, fleet: Fleet) -> None:
    subscribe(connection, fleet.company_id)
    other = make_fleet(connection)
    imported(connection, fleet.sandbox, now=NOW, vehicle={"unitNumber": "9999"})
    imported(connection, other.live, now=NOW, vehicle={"unitNumber": "9999"})
    look(connection, fleet.company_id, NOW)
    assert notices_of(connection, fleet.company_id) == []


def test_prices_that_are_a_week_old_are_told(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    subscribe(connection, fleet.company_id, kinds=("no_prices",))
    connection.execute("UPDATE stations SET priced_at = %s", (NOW - timedelta(days=8),))
    (text,) = send(connection, fleet, look(connection, fleet.company_id, NOW), settings, NOW)
    assert text == ("Acme: no truck stop has a price of the last seven days\nhttps://console.example.com/stations")


def test_a_price_file_that_is_late_is_told_and_its_end_too(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id, kinds=("price_file_late",))
    late_source(connection, fleet.company_id, now=NOW)
    (text,) = send(connection, fleet, look(connection, fleet.company_id, NOW), settings, NOW)
    assert text == "Acme: no price file from daily\nAsk whoever sends the file.\nhttps://console.example.com/prices"

    connection.execute("UPDATE price_sources SET file_at = %s WHERE company_id = %s", (NOW, fleet.company_id))
    (text,) = send(connection, fleet, look_until_over(connection, fleet.company_id, NOW), settings, NOW + END_AFTER)
    assert text.startswith("Acme: over. The price files come again\n")


def test_a_source_that_fails_is_told_before_its_file_is_late(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id, kinds=("price_file_late",))
    late_source(connection, fleet.company_id, now=NOW)
    connection.execute("UPDATE price_sources SET file_at = %s WHERE company_id = %s", (NOW, fleet.company_id))
    source = read_source(connection, fleet.company_id, "daily")
    note_poll(connection, source, fault="sftp.example.com did not answer", seen=None, failed=True, now=NOW)
    look(connection, fleet.company_id, NOW + timedelta(minutes=59))
    assert notices_of(connection, fleet.company_id) == []

    later = NOW + timedelta(minutes=61)
    (text,) = send(connection, fleet, look(connection, fleet.company_id, later), settings, later)
    assert "The last fault: sftp.example.com did not answer" in text


def test_texts_from_outside_cannot_forge_lines_nor_grow(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    subscribe(connection, fleet.company_id)
    unmapped(connection, fleet, "X\u202e" + "Y" * 150)
    connection.execute("UPDATE companies SET name = E'Acme\\nhttps://evil' WHERE id = %s", (fleet.company_id,))
    (text,) = send(connection, fleet, look(connection, fleet.company_id, NOW), settings, NOW)
    assert len(text.split("\n")) == 3
    assert "\u202e" not in text
    assert len(text.split("\n")[1]) == 40
    assert MOST_OF_A_NEED == 1_000  # the counts in texts end there


@pytest.mark.parametrize("how", ["disabled", "removed", "kind", "user"])
def test_whoever_wants_no_more_is_told_no_more(
    connection: Connection, fleet: Fleet, settings: Settings, how: str
) -> None:
    user_id = UUID(int=NOW.minute + 1)
    connection.execute(
        "INSERT INTO users (id, company_id, email, role) VALUES (%s, %s, 'gone@example.com', 'dispatcher')",
        (user_id, fleet.company_id),
    )
    told = subscribe(connection, fleet.company_id, user_id=user_id)
    waiting = subscribe(connection, fleet.company_id, user_id=user_id, after_minutes=5)
    unmapped(connection, fleet, "LOAD-1")
    send(connection, fleet, look(connection, fleet.company_id, NOW), settings, NOW)
    for one in (told, waiting):
        if how == "disabled":
            disable_subscription(connection, fleet.company_id, one.id, DOT, now=NOW)
        elif how == "removed":
            remove_subscription(connection, fleet.company_id, one.id, DOT)
        elif how == "kind":
            values = VALUES._replace(kinds=("error",), url=None)
            change_subscription(
                connection, fleet.company_id, one.id, values, DOT, allowed=HERE, contacts=IN_CLEAR, now=NOW
            )
    if how == "user":
        connection.execute("DELETE FROM users WHERE id = %s", (user_id,))

    assert fleet.company_id in companies_to_tell(connection)
    assert not look(connection, fleet.company_id, NOW + 10 * MINUTE).due

    notices = {one.subscription_id: one for one in notices_of(connection, fleet.company_id)}
    assert notices[told.id].status == "sent"
    assert (notices[waiting.id].status, notices[waiting.id].error) == ("dropped", UNWANTED)
    assert all(one.ended_at for one in notices.values())
    if how == "disabled":
        assert fleet.company_id not in companies_to_tell(connection)
        enable_subscription(connection, fleet.company_id, told.id, DOT)
        assert look(connection, fleet.company_id, NOW + 11 * MINUTE).due, "it is told anew"


def test_a_company_without_subscriptions_costs_nothing(connection: Connection, fleet: Fleet) -> None:
    unmapped(connection, fleet, "LOAD-1")
    assert fleet.company_id not in companies_to_tell(connection)
    subscribe(connection, fleet.company_id)
    assert fleet.company_id in companies_to_tell(connection)
    connection.execute("UPDATE companies SET retired_at = now() WHERE id = %s", (fleet.company_id,))
    assert fleet.company_id not in companies_to_tell(connection)


def test_a_lost_job_is_made_up_and_a_paused_company_left_alone(connection: Connection, fleet: Fleet) -> None:
    subscribe(connection, fleet.company_id)
    unmapped(connection, fleet, "LOAD-1")
    first = look(connection, fleet.company_id, NOW).due
    assert look(connection, fleet.company_id, NOW + MINUTE).due == first
    connection.execute(
        "INSERT INTO company_moves (company_id, other_cell, stage, holds_until) VALUES (%s, 2, 'pausing', 'infinity')",
        (fleet.company_id,),
    )
    assert not look(connection, fleet.company_id, NOW + 2 * MINUTE).due
    assert fleet.company_id not in companies_to_tell(connection)


# --- The law ---------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A piece of a life: time passes, the need comes or goes, the scheduler looks, a worker claims, an attempt ends."""

    minutes: int
    changes: bool
    looks: bool
    claims: bool
    end: str


ENDS = ("took", "took", "refused", "cut", "crash after", "crash before", "late", "none yet")
OFTEN = st.sampled_from([True, True, False])
STEPS = st.builds(Step, st.sampled_from([0, 6, 180]), st.booleans(), OFTEN, OFTEN, st.sampled_from(ENDS))


@given(steps=st.lists(STEPS, min_size=6, max_size=16), after_minutes=st.sampled_from([0, 5]), night=st.booleans())
@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_each_need_is_told_at_most_once_and_its_end_after_it(
    database: Database, settings: Settings, steps: list[Step], after_minutes: int, night: bool
) -> None:
    with database.transaction() as connection:
        _live(connection, settings, steps, after_minutes, NIGHT if night else {})
        raise Rollback


def _live(
    connection: Connection, settings: Settings, steps: list[Step], after_minutes: int, quiet: dict[str, Any]
) -> None:
    fleet = make_fleet(connection)
    subscribe(connection, fleet.company_id, kinds=("vehicle_unmapped",), after_minutes=after_minutes, **quiet)
    route_id = imported(connection, fleet.live, now=NOW)
    now = NOW
    due: list[UUID] = []
    claims: list[NoticeClaim] = []
    arrived: list[UUID] = []
    """The notices that reached the person, in their order."""
    is_needed = is_seen = False
    openings = 0
    for minutes, changes, looks, is_claimed, end in steps:
        now += minutes * MINUTE
        if changes:
            is_needed = not is_needed
            connection.execute(
                "UPDATE routes SET status = %s, pending_reason = %s WHERE id = %s",
                (*(("pending_mapping", "vehicle_unmapped") if is_needed else ("draft", None)), route_id),
            )
        if looks:
            due += look(connection, fleet.company_id, now).due
            openings += is_needed and not is_seen
            is_seen = is_needed
        if is_claimed and due:
            claimed = notice_life.claim_notice(connection, fleet.company_id, due.pop(0), settings=settings, now=now)
            claims += [claimed] if claimed is not None else []
        if end != "none yet" and claims:
            claimed = claims.pop(0)
            if end in ("took", "cut", "crash after", "late"):
                arrived.append(claimed.notice_id)
            now += timedelta(hours=1) if end == "late" else timedelta()
            fault = {"refused": Fault("no"), "cut": Fault("cut", in_doubt=True)}.get(end)
            if not end.startswith("crash"):
                notice_life.settle_notice(connection, claimed, fault, now=now)
    _check(notices_of(connection, fleet.company_id), arrived, openings)


def _check(notices: Sequence[Any], arrived: Sequence[UUID], openings: int) -> None:
    by_id = {one.id: one for one in notices}
    assert len(arrived) == len(set(arrived)), "each text once"
    told = [(by_id[id].opened_at, by_id[id].part) for id in arrived]
    assert len(told) == len(set(told)), "each beginning once, and each end"
    assert told == sorted(told, key=lambda one: (one[0], one[1] == "end")), "in their order"
    assert sum(part == "beginning" for _, part in told) <= openings
    beginnings = {one.opened_at: one for one in notices if one.part == "beginning"}
    for one in notices:
        assert one.part != "end" or beginnings[one.opened_at].status in ("sent", "doubtful")
        assert one.status != "doubtful" or one.error in (DOUBT, "cut")
    assert sum(one.ended_at is None for one in notices) <= 1

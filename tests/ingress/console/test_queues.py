"""The pages Queues: operators see what is wrong and step in."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from uuid import uuid4

import pytest

from domain.audit.entries import Actor, latest_actions
from domain.ids import shown_id
from domain.lifecycle import Role
from domain.operations import pauses
from domain.queue.heartbeats import send_worker_heartbeat
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES, build_plan_job, import_routes_job
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from tests.domain.helpers import imported, pushed
from tests.domain.operations.test_alerts import worker
from tests.dying import dead, kill, url_of
from tests.ingress.console.conftest import Browser, Fields, World, running_console, words
from tests.servers import OwnRedis
from workers.broker import FuelrouteBroker


@pytest.fixture(scope="module")
def console_url(settings: Settings, redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_console(settings, redis.url, tmp_path_factory.mktemp("logs")) as url:
        yield url


@pytest.fixture
def queue(redis: OwnRedis, world: World) -> Iterator[JobQueue]:
    """The queue of the running console."""
    with redis_client(redis.url) as client:
        client.flushdb()
        yield JobQueue(client)
    with world.database.transaction() as connection:
        pauses.resume(connection, "plans", Actor("test", "over"))


@pytest.mark.parametrize("role", [Role.OWNER, Role.DISPATCHER, Role.VIEWER])
def test_only_operators_see_the_pages(world: World, role: Role) -> None:
    browser = world.browser(role)
    assert "/queues" not in browser.look("/account")
    for path in (
        *("/queues", "/queues/stream", "/queues/dead", "/queues/imports/waiting", "/queues/imports/rates"),
        *("/queues/overdue/pending", "/queues/workers/x"),
    ):
        browser.look(path, status=404)
    for path in ("/queues/dead", "/queues/pause", "/queues/resume"):
        answer = browser.submit(path, queue="plans", reason="mischief", act="discard", until="")
        assert answer.status_code == 403
    with world.database.transaction() as connection:
        assert pauses.list_pauses(connection) == []


def test_the_page_begins_with_the_alerts(operator: Browser, queue: JobQueue) -> None:
    queue.put(build_plan_job(uuid4()))
    page = operator.look("/queues")

    assert "Act now: No worker serves imports. Start one: fuelroute workers --queues imports." in words(page)
    assert "No worker runs" in page
    assert words(page).index("Act now") < words(page).index("Overdue by the database")


def test_each_number_links_to_its_rows(operator: Browser, queue: JobQueue) -> None:
    queue.put(build_plan_job(uuid4()))
    paths = set(re.findall(r'href="(/queues/[^"]+)"', operator.look("/queues")))

    assert {"/queues/plans/waiting", "/queues/dead?queue=messages", "/queues/overdue/silent-trucks"} < paths
    for path in paths:
        operator.look(path)
    assert "plans.build" in operator.look("/queues/plans/waiting")


def test_rates_are_drawn_and_link_to_their_minutes(operator: Browser, queue: JobQueue) -> None:
    queue.put(*(build_plan_job(uuid4()) for _ in range(90)))
    page = operator.look("/queues")

    assert page.count('<svg class="chart" viewBox="0 0 240 40" role="img"') == len(QUEUES)
    assert "plans over 60 minutes: 1.5 in and 0 out a minute; the highest bar is 90 jobs" in page
    assert re.search(r'<path class="in" d="M23[26],0h3v20h-3z"></path>', page), "a bar at the right, and only that"
    assert "style=" not in page
    minutes = words(operator.look("/queues/plans/rates"))
    assert "90 0 0" in minutes
    assert "No job has gone in or out" in operator.look("/queues/messages/rates")
    operator.look("/queues/nonsense/rates", status=404)


def test_rows_link_to_the_route_and_to_its_company(
    world: World, operator: Browser, queue: JobQueue, now: datetime
) -> None:
    """Links lead to pages of companies that the operator has not chosen, too."""
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        route_id = pushed(connection, fleet.live, now=now, start=now)
    queue.put(build_plan_job(route_id))
    shown, company = shown_id("rte", route_id), shown_id("cmp", fleet.company_id)

    page = operator.look("/queues/plans/waiting")

    assert f'<button class="link">{shown}</button>' in page
    answer = operator.submit("/companies", company_id=company, next=f"/routes/{shown}")
    assert answer.headers["location"] == f"/routes/{shown}"
    operator.look(f"/routes/{shown}")
    assert f'<a href="/routes/{shown}">' in operator.look("/queues/plans/waiting")
    answer = operator.submit("/companies", company_id=company, next="https://evil.example.com")
    assert answer.headers["location"] == "/"


def test_the_jobs_of_a_worker_are_listed(operator: Browser, queue: JobQueue) -> None:
    queue.put(build_plan_job(uuid4()))
    broker = FuelrouteBroker(url_of(queue))
    consumer = broker.consume("plans", prefetch=4)
    assert next(consumer) is not None

    assert "A worker without a heartbeat holds 1 job" in words(operator.look("/queues"))
    page = operator.look(f"/queues/workers/{broker.broker_id}")

    assert "plans.build" in page
    operator.look("/queues/workers/nonsense", status=404)
    consumer.close()
    broker.close()


def test_a_worker_is_called_stuck_only_if_it_holds_jobs_and_none_has_ended(
    operator: Browser, queue: JobQueue, now: datetime
) -> None:
    broker = FuelrouteBroker(url_of(queue))

    def shown(*, ended_before: timedelta) -> str:
        beat = worker(id=broker.broker_id, beat_at=now, held=1, stuck_since=now - ended_before)
        send_worker_heartbeat(queue.client, beat, {}, {})
        return words(operator.look("/queues"))

    assert "none ended since" not in shown(ended_before=timedelta(minutes=3)), "it has ended its job meanwhile"
    queue.put(build_plan_job(uuid4()))
    consumer = broker.consume("plans", prefetch=4)
    assert next(consumer) is not None
    assert "none ended since" not in shown(ended_before=timedelta(0)), "one has ended since the last heartbeat"
    assert "1 none ended since 3 min ago" in shown(ended_before=timedelta(minutes=3))
    consumer.close()
    broker.close()


def test_the_reason_why_a_route_is_held_is_told_in_words(
    world: World, operator: Browser, queue: JobQueue, now: datetime
) -> None:
    with world.database.transaction() as connection:
        lost = {"externalId": "LOST", "vehicle": {"unitNumber": "nobody"}}
        imported(connection, world.new_fleet().live, now=now, start=now - timedelta(days=1), **lost)

    page = words(operator.look("/queues/overdue/held?reason=vehicle_unmapped"))

    assert "Held past their start: vehicle not matched" in page
    assert "vehicle_unmapped" not in page


def test_a_queue_is_paused_and_resumed_with_a_reason(world: World, operator: Browser, queue: JobQueue) -> None:
    operator.look("/queues")
    assert "say why" in words(operator.submit("/queues/pause", queue="plans", reason=" ").text).lower()

    assert operator.submit("/queues/pause", queue="plans", reason="prices <i>are</i> wrong").status_code == 303

    page = operator.look("/queues", done="paused")
    assert "plans is paused by" in page
    assert "prices &lt;i&gt;are&lt;/i&gt; wrong" in page
    with world.database.transaction() as connection:
        (pause,) = pauses.list_pauses(connection)
        entry = latest_actions(connection, limit=1)[0]
    assert (entry.actor, entry.action, entry.subject) == (pause.paused_by, "pause", "plans")
    assert pause.paused_by in page

    assert operator.submit("/queues/resume", queue="plans", reason="new ones came").status_code == 303
    with world.database.transaction() as connection:
        assert pauses.list_pauses(connection) == []
    assert operator.submit("/queues/pause", queue="nonsense", reason="x").status_code == 409


def test_dead_letters_are_replayed_and_discarded_singly_or_all_that_match(operator: Browser, queue: JobQueue) -> None:
    kill(queue, build_plan_job(uuid4()), build_plan_job(uuid4()), import_routes_job([uuid4()]))
    page = operator.look("/queues/dead", queue="plans")
    assert "Replay all 2 that match" in words(page)
    assert "&lt;b&gt;away&lt;/b&gt;" in page
    assert "hunter2" not in page
    one, until = re.findall(r'name="id" value="([^"]+)"', page)[0], seen_until(page)

    answer = operator.submit("/queues/dead", act="discard", id=one, until=until, reason="that route is gone")
    assert words(operator.look(answer.headers["location"])).count("1 dead letter discarded.") == 1
    assert dead(queue) == 2

    again: Fields = {"act": "replay", "queue": "plans", "reason": "again"}
    for form in (again, again | {"until": "never"}, again | {"until": until, "id": one}):
        assert operator.submit("/queues/dead", **form).status_code == 409
    assert (dead(queue), queue.backlog("plans")) == (2, 0)

    assert operator.submit("/queues/dead", **again, until=until).status_code == 303
    assert (dead(queue), queue.backlog("plans"), queue.backlog("imports")) == (1, 1, 0)


@pytest.mark.parametrize("by", ["company", "route", "job", "error"])
@pytest.mark.parametrize("act", ["replay", "discard"])
def test_dead_letters_are_taken_that_the_page_showed(
    world: World, operator: Browser, queue: JobQueue, now: datetime, by: str, act: str
) -> None:
    ours, theirs = world.new_fleet(), world.new_fleet()
    with world.database.transaction() as connection:
        mine = [pushed(connection, ours.live, now=now, start=now) for _ in range(2)]
        other = pushed(connection, theirs.live, now=now, start=now)
    kill(
        queue,
        *map(build_plan_job, mine),
        import_routes_job([mine[0]]),
        build_plan_job(other),
        import_routes_job([other]),
    )
    wanted: dict[str, Any] = {}
    wanted[by], expected = {
        "company": (shown_id("cmp", ours.company_id), 3),
        "route": (shown_id("rte", mine[0]), 2),
        "job": ("plans.build", 3),
        "error": ("AWAY", 5),
    }[by]

    page = operator.look("/queues/dead", **wanted)
    told = re.search(rf"{act.title()} all (\d+) that match", page)
    assert told is not None
    assert int(told[1]) == expected

    until = seen_until(page)
    answer = operator.submit("/queues/dead", act=act, until=until, reason="the roads are back", **wanted)

    assert f"{expected} dead letters {act}" in words(operator.look(answer.headers["location"]))
    assert dead(queue) == 5 - expected
    assert "No dead letter matches. Show all" in words(operator.look("/queues/dead", **wanted))
    with world.database.transaction() as connection:
        assert latest_actions(connection, limit=1)[0].affected == expected


def test_dead_letters_that_come_after_the_look_stay_and_refuse_nothing(operator: Browser, queue: JobQueue) -> None:
    kill(queue, build_plan_job(uuid4()), build_plan_job(uuid4()))
    page = operator.look("/queues/dead")
    kill(queue, build_plan_job(uuid4()))

    answer = operator.submit("/queues/dead", act="discard", until=seen_until(page), reason="gone")

    said = words(operator.look(answer.headers["location"]))
    assert "2 dead letters discarded." in said
    assert "Discard all 1" in said
    assert dead(queue) == 1


def seen_until(page: str) -> str:
    """The field by which a form tells which letters its page showed."""
    (until,) = set(re.findall(r'name="until" value="([^"]+)"', page))
    return unescape(until)


def test_dead_letters_are_grouped_by_common_values(
    world: World, operator: Browser, queue: JobQueue, now: datetime
) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        route_id = pushed(connection, fleet.live, now=now, start=now)
    kill(queue, build_plan_job(route_id), import_routes_job([route_id]), import_routes_job([uuid4()]))

    page = operator.look("/queues/dead")

    assert "By job: imports.run 2 plans.build 1" in words(page)
    for address, number in re.findall(r'<a href="(/queues/dead\?[^"]+)">[^<]*</a> <span class="faint">(\d+)<', page):
        assert f"{number} dead letter" in words(operator.look(unescape(address)))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/queues/nonsense/waiting", 404),
        ("/queues/plans/nonsense", 404),
        ("/queues/overdue/nonsense", 404),
        ("/queues/dead?company=acme", 400),
        ("/queues/dead?route=rte_1", 400),
        ("/queues/dead?queue=nonsense&error=%00", 200),
    ],
)
def test_invalid_addresses_are_refused(operator: Browser, queue: JobQueue, path: str, status: int) -> None:
    operator.look(path, status=status)


def test_the_page_without_redis_says_so_and_shows_overdue_work(
    operator: Browser, queue: JobQueue, redis: OwnRedis
) -> None:
    redis.fall_silent()
    try:
        page = words(operator.look("/queues"))
        operator.look("/queues/dead", status=503)
    finally:
        redis.speak_again()
    assert "Act now: Redis does not answer." in page
    assert "Silent trucks on a route" in page

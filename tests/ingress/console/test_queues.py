"""The pages Queues: for operators, who see what is wrong and step in."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from domain.jobs import JobQueue, build_plan, import_routes, redis_client
from domain.lifecycle import Role
from domain.operations import audit, pauses
from domain.operations.audit import Actor
from domain.settings import Settings
from tests.dying import dead, kill
from tests.ingress.console.conftest import Browser, World, running_console, words
from tests.servers import OwnRedis, own_redis


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    """A Redis that no worker of other tests uses."""
    with own_redis(tmp_path_factory.mktemp("redis")) as one:
        yield one


@pytest.fixture(scope="module")
def console_url(settings: Settings, redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_console(settings, redis.url, tmp_path_factory.mktemp("logs")) as url:
        yield url


@pytest.fixture
def queue(redis: OwnRedis, world: World) -> Iterator[JobQueue]:
    """That of the running console."""
    with redis_client(redis.url) as client:
        client.flushdb()
        yield JobQueue(client)
    with world.database.transaction() as connection:
        pauses.resume(connection, "plans", Actor("test", "over"), now=datetime.now(UTC))


@pytest.fixture
def operator(world: World) -> Browser:
    return world.browser(Role.OPERATOR)


@pytest.mark.parametrize("role", [Role.OWNER, Role.DISPATCHER, Role.VIEWER])
def test_to_others_there_is_nothing(world: World, role: Role) -> None:
    browser = world.browser(role)
    assert "/queues" not in browser.look("/account")
    for path in ("/queues", "/queues/dead", "/queues/imports/waiting", "/queues/overdue/pending"):
        browser.look(path, status=404)
    for path in ("/queues/dead", "/queues/pause", "/queues/resume"):
        answer = browser.submit(path, queue="plans", reason="mischief", act="discard", count=0)
        assert answer.status_code == 403
    with world.database.transaction() as connection:
        assert pauses.list_pauses(connection) == []


def test_the_page_says_first_what_needs_a_person(operator: Browser, queue: JobQueue) -> None:
    queue.put(build_plan(uuid4()))
    page = operator.look("/queues")

    assert "Act now: No worker serves imports. Start one: fuelroute workers --queues imports." in words(page)
    assert "No worker lives" in page
    assert words(page).index("Act now") < words(page).index("Overdue by the database")


def test_each_number_leads_to_the_rows_behind_it(operator: Browser, queue: JobQueue) -> None:
    queue.put(build_plan(uuid4()))
    paths = set(re.findall(r'href="(/queues/[^"]+)"', operator.look("/queues")))

    assert {"/queues/plans/waiting", "/queues/dead?queue=messages", "/queues/overdue/silent-trucks"} < paths
    for path in paths:
        operator.look(path)
    assert "plans.build" in operator.look("/queues/plans/waiting")


def test_the_part_that_updates_itself_is_asked_for_alone(operator: Browser, queue: JobQueue) -> None:
    part = operator.get("/queues", headers={"HX-Request": "true"}).text
    assert "<html" not in part
    assert "Overdue by the database" in part
    assert 'hx-get="/queues"' not in part


def test_a_queue_is_paused_and_resumed_with_a_reason(world: World, operator: Browser, queue: JobQueue) -> None:
    operator.look("/queues")
    assert "say why" in words(operator.submit("/queues/pause", queue="plans", reason=" ").text).lower()

    assert operator.submit("/queues/pause", queue="plans", reason="prices <i>are</i> wrong").status_code == 303

    page = operator.look("/queues", done="paused")
    assert "plans is paused by" in page
    assert "prices &lt;i&gt;are&lt;/i&gt; wrong" in page
    with world.database.transaction() as connection:
        (pause,) = pauses.list_pauses(connection)
        entry = audit.latest(connection, limit=1)[0]
    assert (entry.actor, entry.action, entry.subject) == (pause.paused_by, "pause", "plans")
    assert pause.paused_by in page

    assert operator.submit("/queues/resume", queue="plans", reason="new ones came").status_code == 303
    with world.database.transaction() as connection:
        assert pauses.list_pauses(connection) == []
    assert operator.submit("/queues/pause", queue="nonsense", reason="x").status_code == 409


def test_dead_letters_are_replayed_and_discarded_singly_or_all_that_match(operator: Browser, queue: JobQueue) -> None:
    kill(queue, build_plan(uuid4()), build_plan(uuid4()), import_routes([uuid4()]))
    page = operator.look("/queues/dead", queue="plans")
    assert "Replay all 2 that match" in words(page)
    assert "&lt;b&gt;away&lt;/b&gt;" in page
    assert "hunter2" not in page
    one = re.findall(r'name="id" value="([^"]+)"', page)[0]

    answer = operator.submit("/queues/dead", act="discard", id=one, count=1, reason="that route is gone")
    assert words(operator.look(answer.headers["location"])).count("1 dead letter discarded.") == 1
    assert dead(queue) == 2

    assert operator.submit("/queues/dead", act="replay", queue="plans", count=2, reason="again").status_code == 409
    assert dead(queue) == 2, "the person was shown another number"

    assert operator.submit("/queues/dead", act="replay", queue="plans", count=1, reason="again").status_code == 303
    assert (dead(queue), queue.backlog("plans"), queue.backlog("imports")) == (1, 1, 0)


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
def test_addresses_that_make_no_sense(operator: Browser, queue: JobQueue, path: str, status: int) -> None:
    operator.look(path, status=status)


def test_without_redis_the_page_says_so_and_what_is_overdue(
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

"""A page that updates itself, and says so when it does not: figures that stand still look like those of a healthy
service."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import psycopg
import pytest
from playwright.sync_api import Page, Route, expect

from domain.lifecycle import Role
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from ingress.console.streams import MOST_OF_SESSION
from tests.browser.conftest import People, add_session, session_of
from tests.ingress.console.conftest import PASSWORD, running_console
from tests.servers import OwnRedis


@pytest.fixture
def console(
    settings: Settings, redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ExitStack]]:
    """A console of its own that a test may stop."""
    with ExitStack() as running:
        yield running.enter_context(running_console(settings, redis.url, tmp_path_factory.mktemp("logs"))), running


def queues_page(people: People, url: str) -> Page:
    page = people.page(Role.OPERATOR, url=url)
    page.goto("/queues")
    expect(page.get_by_text("looked again at")).to_be_visible()
    return page


def test_figures_update_by_themselves_and_keep_focus_and_typed_text(
    people: People, console: tuple[str, ExitStack], redis: OwnRedis
) -> None:
    page = queues_page(people, console[0])
    reason = page.get_by_label("Why").first
    reason.fill("half a sentence")
    link = page.locator('a[href="/queues/plans/waiting"]')
    link.focus()
    with redis_client(redis.url) as client:
        JobQueue(client).put(*(build_plan_job(uuid4()) for _ in range(7)))
    expect(link).to_have_text("7")
    expect(link).to_be_focused()
    expect(reason).to_have_value("half a sentence")
    expect(
        page.get_by_role("img", name=re.compile("^plans over 60 minutes.* the highest bar is 7 jobs"))
    ).to_be_visible()


def test_the_time_of_the_last_look_is_in_the_zone_of_all_times_of_the_page(
    people: People, console: tuple[str, ExitStack]
) -> None:
    page = queues_page(people, console[0])
    zone = page.evaluate("document.documentElement.dataset.zone")
    assert zone == "UTC"
    page.evaluate("document.documentElement.dataset.zone = 'America/Denver'")
    expect(page.locator("[data-heard]")).to_have_text(re.compile(r"looked again at \d\d:\d\d:\d\d M[SD]T$"))


def test_the_top_line_says_when_measuring_stops_and_when_it_resumes(
    people: People, console: tuple[str, ExitStack], settings: Settings
) -> None:
    page = queues_page(people, console[0])
    still = page.locator("#still")
    expect(still).to_be_hidden()
    with psycopg.connect(settings.require_database_url()) as connection:
        connection.execute("LOCK TABLE queue_pauses IN ACCESS EXCLUSIVE MODE")  # the measuring waits, and gives up
        expect(still).to_be_visible()
        expect(still).to_contain_text(re.compile(r"Act now: these figures stand still since \d+:\d+"))
        expect(page.locator("#queues")).to_have_class(re.compile("still"))
    expect(still).to_be_hidden()
    expect(page.locator("#queues")).not_to_have_class(re.compile("still"))


def test_the_top_line_says_when_the_console_is_unreachable(people: People, console: tuple[str, ExitStack]) -> None:
    page = queues_page(people, console[0])
    console[1].close()
    expect(page.locator("#still")).to_be_visible()


def test_a_page_without_a_stream_says_that_it_is_not_updated(people: People, console: tuple[str, ExitStack]) -> None:
    first = queues_page(people, console[0])
    others = [first.context.new_page() for _ in range(MOST_OF_SESSION)]
    for page in others:
        page.goto("/queues")
    expect(others[-1].locator("#full")).to_be_visible()
    expect(first.locator("#full")).to_be_hidden()


def test_a_page_leads_to_the_sign_in_after_signing_out_elsewhere(
    people: People, console: tuple[str, ExitStack]
) -> None:
    page = queues_page(people, console[0])
    context = people.browser(console[0])
    add_session(context, console[0], session_of(page.context))
    other = context.new_page()
    other.goto("/account")
    other.get_by_role("button", name=re.compile("everywhere|every browser", re.I)).click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_after_the_sign_in_a_person_is_back_on_the_page_whose_part_had_no_session(people: People) -> None:
    page = people.page(Role.VIEWER)
    page.clock.install()
    page.goto("/routes?status=draft")
    add_session(page.context, people.world.url, "ended")
    page.clock.run_for(5_000)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.get_by_label("E-mail").fill(people.world.new_user(Role.VIEWER))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/routes\\?status=draft$"))


def test_a_part_outlives_a_proxy_that_answers_for_the_console(people: People) -> None:
    """The proxy's page took the place of the part, which never asked again. A refusal of ours stayed for ever."""
    page = people.page(Role.DISPATCHER)
    page.clock.install()
    page.goto("/routes")
    part, notices = page.locator("#routes"), page.locator("#notices")
    ours = {"HX-Retarget": "#notices", "HX-Reswap": "innerMorph"}
    answers: list[tuple[dict[str, str], str]] = [
        ({}, "<html><title>502</title><h1>Bad Gateway</h1>"),
        ({}, ""),
        (ours, "<p>The database is away</p>"),
    ]

    def answer(route: Route) -> None:
        if route.request.headers.get("hx-request") != "true" or not answers:
            return route.continue_()
        headers, body = answers.pop(0)
        route.fulfill(status=502, headers=headers, content_type="text/html", body=body)

    page.route("**/routes*", answer)
    for words in ("The console does not answer: this page stands still since",) * 2 + ("The database is away", ""):
        page.clock.run_for(5_000)
        expect(notices).to_contain_text(words) if words else expect(notices).to_be_empty()
        expect(part.locator(".empty")).to_be_visible()
    assert page.title() == "Routes · Fuelroute"

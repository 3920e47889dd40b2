"""A page that updates itself, and says so when it does not: figures that stand still look like those of a healthy
service."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
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
from tests.service import eventually


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


def wait_for(page: Page, events: Sequence[Any]) -> None:
    def look() -> int:
        page.wait_for_timeout(20)  # the page's events are told meanwhile
        return len(events)

    eventually(look, bool)


def hold_forms(page: Page) -> list[Route]:
    """The forms that the page sends from now on, which wait until somebody lets them go on."""
    held: list[Route] = []
    page.route("**/*", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    return held


NOT_ANSWERED = "The console has not answered yet. This page goes on waiting."


def test_a_form_says_that_a_console_which_hangs_has_not_answered_yet(people: People) -> None:
    page = people.page(Role.OWNER)
    page.add_init_script("const later = setTimeout; window.setTimeout = (call, ms) => later(call, ms / 50)")
    page.goto("/policy")
    held, said = hold_forms(page), list[str]()
    page.on("console", lambda message: said.append(message.text))
    observed = "new MutationObserver(() => console.log(it.textContent)).observe(it, { childList: true })"
    page.locator("#notices").evaluate(f"it => {observed}")
    page.get_by_role("button", name="Save the policy").evaluate("it => it.click()")
    wait_for(page, said)  # no locator finds anything before the answer
    assert said == [NOT_ANSWERED]
    wait_for(page, held)
    held.pop().continue_()
    expect(page.get_by_text("Nothing was changed")).to_be_visible()


def test_a_part_and_a_file_say_that_a_console_which_hangs_has_not_answered_yet(people: People, tmp_path: Path) -> None:
    page = people.page(Role.OWNER)
    page.clock.install()
    held, notices = hold_forms(page), page.locator("#notices")
    file = tmp_path / "trucks.csv"
    file.write_text("unit_number\n7\n")
    for path, press, answered in (
        ("/policy", "Preview with the last plans", "Change a value of tank and reserve"),
        ("/import", "Look at it", "vehicles"),
    ):
        page.goto(path)
        if path == "/import":
            page.locator("#any-file input[type=file]").set_input_files(file)
        page.get_by_role("button", name=press).click()
        wait_for(page, held)
        page.clock.run_for(5_000)
        expect(notices).to_have_text(NOT_ANSWERED)
        held.pop().continue_()
        expect(page.locator("#main")).to_contain_text(answered)
        expect(notices).to_be_empty()


def test_a_part_says_that_it_stands_still_while_a_console_hangs(people: People) -> None:
    page = people.page(Role.VIEWER)
    page.clock.install()
    page.goto("/routes")
    held: list[Route] = []
    page.route("**/routes*", lambda route: held.append(route))
    page.clock.run_for(5_000)
    wait_for(page, held)
    page.clock.run_for(12_000)
    expect(page.locator("#notices")).to_contain_text("The console does not answer: this page stands still since")
    held.pop().continue_()
    expect(page.locator("#notices")).to_be_empty()


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

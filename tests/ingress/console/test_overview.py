"""The page Overview: the first one, with what needs a person; or the steps to the first plan."""

from datetime import UTC, datetime, timedelta

from domain.accounts.companies import create_company, set_policy
from domain.accounts.policy import Policy
from domain.ids import new_id
from domain.lifecycle import Role
from tests.domain.helpers import imported, planned_by_hand
from tests.factories import DOT, Fleet
from tests.ingress.console.conftest import World, words


def test_it_is_the_first_page(world: World) -> None:
    answer = world.browser(Role.VIEWER).get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/overview")


def test_it_shows_what_needs_a_person_and_the_step_that_mends_it(world: World) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    with world.database.transaction() as connection:
        for number in range(2):
            lost = {"externalId": f"LOST-{number}", "vehicle": {"unitNumber": "<9>"}}
            imported(connection, fleet.live, now=now, start=now - timedelta(hours=30), **lost)
        imported(connection, fleet.sandbox, now=now, start=now, externalId="TRIED")
    browser = world.browser(Role.DISPATCHER, fleet)
    html = browser.look("/overview")
    page = words(html)
    assert "2 routes wait for vehicles that the fleet does not know Match vehicles" in page
    assert 'href="/matching/vehicles">Match vehicles' in html
    assert "LOST-0" in page
    assert "start 1 day ago" in page, "a bare time does not say what happened then"
    assert "TRIED" not in page
    assert "No plan counts in this month yet" in page
    part = browser.get("/overview", headers={"HX-Request": "true"}).text
    assert part.startswith('<div id="overview"')


def test_a_new_company_sees_the_steps_to_its_first_plan(world: World) -> None:
    with world.database.transaction() as connection:
        nobody = (new_id(), new_id())
        empty = Fleet(create_company(connection, Policy(name="New Freight")), nobody, nobody)
    page = words(world.browser(Role.OWNER, empty).look("/overview"))
    assert "The steps to your first plan" in page
    assert "1 Set the time zone of your company next" in page
    with world.database.transaction() as connection:
        set_policy(connection, empty.company_id, Policy(time_zone="America/Denver"), DOT)
    page = words(world.browser(Role.OWNER, empty).look("/overview"))
    assert "✓ Set the time zone of your company done" in page
    assert "2 Add the vehicles of your fleet next" in page
    fleet, now = world.new_fleet(), datetime.now(UTC)
    browser = world.browser(Role.OWNER, fleet)
    assert "✓ Add the vehicles of your fleet done" in words(browser.look("/overview"))
    with world.database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now, start=now + timedelta(hours=1))
    page = words(browser.look("/overview"))
    assert "✓ Make an API key for your TMS done" in page, "the route came by a file"
    assert "8 See the first plan" in page
    with world.database.transaction() as connection:
        planned_by_hand(connection, route_id, now=now)
    assert "The steps to your first plan" not in words(browser.look("/overview"))


def test_a_viewer_reads_the_steps_without_links_that_lead_nowhere(world: World) -> None:
    html = world.browser(Role.VIEWER, world.new_fleet()).look("/overview")
    assert 'href="/route-files"' not in html
    assert "Somebody with another role takes this step" in html

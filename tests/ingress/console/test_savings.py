"""The pages Savings: figures agree with the plans behind them, belong to one company, and odd addresses get an
answer."""

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from html import unescape
from typing import Any
from uuid import UUID

import pytest

from domain.accounts.companies import set_policy
from domain.accounts.contacts import IN_CLEAR
from domain.accounts.policy import Policy
from domain.database.connections import Database
from domain.ids import shown_id
from domain.lifecycle import Role
from domain.savings.report import NO_PLANS, Week
from domain.savings.spans import Span
from domain.savings.statements import make_statement
from domain.settings import Settings
from ingress.console.pages.money.savings import whole_weeks
from tests.domain.helpers import corrected_by_hand, deliver, imported, planned_by_hand
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.ingress.console.conftest import Browser, Fields, OwnConsole, World, words

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

NOON = datetime(2026, 11, 10, 18, tzinfo=UTC)
NOVEMBER: Fields = {"from": "2026-11-01", "to": "2026-11-30"}
PLANNED = "Planned savings: what the gallons of each plan would have cost"

PATHS = ("/savings", "/savings.csv", "/savings/habits.csv", "/savings/plans", "/savings/plans.csv")


@pytest.fixture(scope="module")
def database(own_console: OwnConsole) -> Database:
    return own_console.database


@pytest.fixture(scope="module")
def console_url(own_console: OwnConsole) -> str:
    return own_console.url


Send = Callable[..., UUID]


@pytest.fixture
def send(world: World, settings: Settings) -> Send:
    """Store an active route whose driver has a plan."""

    def one(
        fleet: Fleet, saved: float | None = 31.5, *, at: datetime = NOON, sandbox: bool = False, **route: Any
    ) -> UUID:
        with world.database.transaction() as connection:
            route_id = imported(connection, fleet.sandbox if sandbox else fleet.live, now=at, **route)
            message_id = planned_by_hand(connection, route_id, now=at, savingsTotal=saved)
            deliver(connection, message_id, settings=settings, now=at)
        return route_id

    return one


@pytest.fixture
def fleet(world: World) -> Fleet:
    return world.new_fleet(time_zone="America/Chicago")


def links(html: str, path: str) -> list[str]:
    return [unescape(link) for link in re.findall(rf'href="({re.escape(path)}\?[^"]*)"', html)]


def table_of(html: str) -> str:
    """The last table of the page."""
    return words(html[html.rindex("<table>") :])


@pytest.fixture
def three_plans(send: Send, fleet: Fleet) -> list[UUID]:
    """Savings of $31.50 and $10.07 by truck 101 with Ann Lee, and of -$1.20 by truck 102 with Bo Diaz."""
    other = {"vehicle": {"unitNumber": "102"}, "driver": {"name": "Bo Diaz"}, "stops": [PERRYSBURG, NEWARK]}
    return [
        send(fleet, 31.5, externalId="LOAD-1"),
        send(fleet, 10.07, externalId="LOAD-2", at=datetime(2026, 11, 20, 12, tzinfo=UTC)),
        send(fleet, -1.2, externalId="LOAD-3", **other),
    ]


@pytest.mark.parametrize(("saved", "said"), [(31.5, "$31.50 less than"), (-31.5, "$31.50 more than")])
def test_a_plan_that_can_only_buy_dear_fuel_is_said_to_cost_more(
    world: World, fleet: Fleet, send: Send, now: datetime, saved: float, said: str
) -> None:
    route_id = send(fleet, saved, at=now)
    browser = world.browser(Role.VIEWER, fleet)
    assert f"{said} at the average price along each road" in words(browser.look("/"))
    route = browser.look(f"/routes/{shown_id('rte', route_id)}")
    assert f"{said} at the average price of the corridor" in words(route)


@pytest.mark.usefixtures("three_plans")
@pytest.mark.parametrize(
    ("by", "lines"),
    [
        ("truck", ["101", "102"]),
        ("driver", ["Ann Lee", "Bo Diaz"]),
        ("lane", ["Joliet terminal, IL → Port Newark, NJ", "Perrysburg yard, OH → Port Newark, NJ"]),
    ],
)
def test_each_figure_links_to_its_plans_and_each_plan_to_its_route(
    world: World, fleet: Fleet, by: str, lines: list[str]
) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    html = browser.look("/savings", by=by, **NOVEMBER)
    page, table = words(html), table_of(html)
    assert PLANNED in page
    assert "$40.37 saved by 3 plans" in page
    assert [table.index(line) for line in lines] == sorted(table.index(line) for line in lines)
    assert "$41.57" in table
    assert "−$1.20" in table
    plans = links(html, "/savings/plans")
    assert len(plans) == 2
    first = browser.look(plans[0])
    assert "$41.57 saved by 2 plans" in words(first)
    assert all(said in table_of(first) for said in ("LOAD-1", "LOAD-2", "$31.50", "$10.07"))
    assert "LOAD-3" not in first
    assert "LOAD-3" in browser.look(plans[1])
    route = re.findall(r'href="(/routes/rte_[0-9a-f]+)"', first)[0]
    assert "LOAD-2" in browser.look(route), "the newest first"


@pytest.mark.usefixtures("three_plans")
def test_lines_are_ordered_by_the_figure_that_is_chosen(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    html = browser.look("/savings", **NOVEMBER)
    assert 'aria-sort="descending"' in html
    turned = next(link for link in links(html, "/savings") if "direction=up" in link)
    html = browser.look(turned)
    assert 'aria-sort="ascending"' in html
    assert table_of(html).index("102") < table_of(html).index("101")
    for order in ("plans", "gallons", "cost", "per_gallon", "percent"):
        page = table_of(browser.look("/savings", order=order, **NOVEMBER))
        assert page.index("101") < page.index("102"), order


@pytest.mark.usefixtures("three_plans")
def test_the_company_s_target_is_a_line_and_a_sentence(world: World, fleet: Fleet) -> None:
    owner = world.browser(Role.OWNER, fleet)
    assert "target" not in words(owner.look("/savings", **NOVEMBER))
    with world.database.transaction() as connection:
        set_policy(connection, fleet.company_id, Policy(savings_target_per_week=20), DOT)
    page = owner.look("/savings", **{**NOVEMBER, "to": "2026-11-23"})
    assert 'class="target"' in page
    assert "The target is $20.00 a week. 1 of 3 whole weeks reached it." in words(page)
    assert 'class="target"' not in owner.look("/savings", environment="sandbox", **NOVEMBER)
    assert 'class="target"' not in owner.look("/savings/plans", **NOVEMBER)


@pytest.mark.parametrize(("today", "over"), [(9, 1), (8, 0), (28, 3), (31, 3)])
def test_a_week_that_is_not_over_neither_reaches_the_target_nor_misses_it(today: int, over: int) -> None:
    span = Span(date(2026, 11, 1), date(2026, 11, 24), "America/Chicago")
    weeks = [Week(day, NO_PLANS) for day in span.weeks]
    assert len(whole_weeks(weeks, span, date(2026, 11, 1) + timedelta(days=today - 1))) == over


@pytest.mark.usefixtures("three_plans")
def test_a_lane_shows_its_planned_price_against_the_corridor(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    (link, _) = links(browser.look("/savings", by="lane", **NOVEMBER), "/savings/plans")
    page = words(browser.look(link))
    assert "Price against the corridor" in page
    table = page[page.index("The prices as a table") :]
    prices = re.search(r"Mon, Nov 16, 2026 \$([\d.]+) \$([\d.]+) \$([\d.]+)", table)
    assert prices is not None
    planned, average, less = map(float, prices.groups())
    assert less == pytest.approx(average - planned, abs=0.0011)
    assert "Price against the corridor" not in browser.look("/savings/plans", **NOVEMBER)


@pytest.mark.usefixtures("three_plans")
def test_the_chart_and_a_table_show_the_weeks(world: World, fleet: Fleet) -> None:
    html = world.browser(Role.VIEWER, fleet).look("/savings", **NOVEMBER)
    titles = re.findall(r"<rect class=\"bar[^>]*><title>([^<]*)</title>", html)
    assert len(titles) == 6
    assert titles[2] == "Week from Nov 9: $30.30, 2 plans"
    assert titles[3] == "Week from Nov 16: $10.07, 1 plan"
    heights = [float(height) for height in re.findall(r'<rect class="bar[^>]* height="([\d.]+)"', html)]
    assert max(heights) == heights[2] == pytest.approx(3 * heights[3], rel=0.01)
    assert "style=" not in html
    assert "Mon, Nov 9, 2026" in words(html)


def test_a_corrected_plan_counts_once(world: World, fleet: Fleet, send: Send, settings: Settings) -> None:
    route_id = send(fleet, 31.5)
    with world.database.transaction() as connection:
        message = corrected_by_hand(connection, route_id, now=NOON, savingsTotal=12.25)
    browser = world.browser(Role.VIEWER, fleet)
    assert "$31.50 saved by 1 plan" in words(browser.look("/savings", **NOVEMBER))
    with world.database.transaction() as connection:
        deliver(connection, message, settings=settings, now=NOON)
    assert "$12.25 saved by 1 plan" in words(browser.look("/savings", **NOVEMBER))


def test_months_begin_in_the_company_s_zone(world: World, fleet: Fleet, send: Send) -> None:
    send(fleet, 1.0, at=datetime(2026, 12, 1, 5, 59, tzinfo=UTC))  # the last minute of November in Chicago
    send(fleet, 2.0, at=datetime(2026, 12, 1, 6, 0, tzinfo=UTC))
    browser = world.browser(Role.VIEWER, fleet)
    assert "$1.00 saved by 1 plan" in words(browser.look("/savings", **NOVEMBER))
    december: Fields = {"from": "2026-12-01", "to": "2026-12-31"}
    assert "$2.00 saved by 1 plan" in words(browser.look("/savings", **december))


def test_the_days_of_this_month_are_shown_unless_others_are_chosen(world: World, fleet: Fleet, send: Send) -> None:
    send(fleet, 7.0, at=datetime.now(UTC))
    browser = world.browser(Role.VIEWER, fleet)
    html = browser.look("/savings")
    assert "$7.00 saved by 1 plan" in words(html)
    spans = [link for link in links(html, "/savings") if "from=" in link]
    assert [words(browser.look(link)).count("$7.00 saved by 1 plan") for link in spans] == [1, 0, 1, 0]


def test_a_page_without_savings_says_so(world: World, fleet: Fleet) -> None:
    page = words(world.browser(Role.VIEWER, fleet).look("/savings"))
    assert "No live plan counts in these days" in page
    page = words(world.browser(Role.VIEWER, fleet).look("/savings/plans"))
    assert "No plan counts here in these days" in page


def test_names_are_escaped_and_lanes_are_found_by_them(world: World, fleet: Fleet, send: Send) -> None:
    """A name that looks like markup, like an address's syntax or like a formula, as long as the contract allows."""
    names = ["<script>alert(1)</script>", "  =a&b=c%41+\r\nd ", "N" * 200]
    for name in names:
        send(fleet, stops=[{**JOLIET, "name": name}, NEWARK])
    browser = world.browser(Role.VIEWER, fleet)
    html = browser.look("/savings", by="lane", **NOVEMBER)
    assert "<script>alert" not in html
    plans = links(html, "/savings/plans")
    assert len(plans) == 3
    for link in plans:
        assert "$31.50 saved by 1 plan" in words(browser.look(link)), link
        (days,) = re.findall(r'<form class="search filters".*?</form>', browser.look(link), re.DOTALL)
        hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', days)
        kept = {name: unescape(value) for name, value in hidden}
        assert "$31.50 saved by 1 plan" in words(browser.get("/savings/plans", params={**kept, **NOVEMBER}).text)


# --- Files -----------------------------------------------------------------------------------------------------


def rows_of(browser: Browser, link: str) -> list[dict[str, str]]:
    answer = browser.get(link)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="savings-by-')
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


@pytest.mark.usefixtures("three_plans")
def test_figures_and_plans_are_downloaded(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    html = browser.look("/savings", **NOVEMBER)
    (link,) = links(html, "/savings.csv")
    rows = rows_of(browser, link)
    assert [(row["unit_number"], row["plans"], row["saved"]) for row in rows] == [
        ("101", "2", "41.57"),
        ("102", "1", "-1.2"),
    ]
    (link,) = links(browser.look(links(html, "/savings/plans")[0]), "/savings/plans.csv")
    rows = rows_of(browser, link)
    assert [(row["external_id"], row["saved"]) for row in rows] == [("LOAD-2", "10.07"), ("LOAD-1", "31.5")]


def test_a_downloaded_cell_is_never_a_formula(world: World, fleet: Fleet, send: Send) -> None:
    send(fleet, -2.0, externalId="=1+1", stops=[{**JOLIET, "name": "@SUM(A1)"}, {**NEWARK, "name": "+1"}])
    browser = world.browser(Role.VIEWER, fleet)
    query = "&".join(f"{name}={value}" for name, value in NOVEMBER.items())
    (lane,) = rows_of(browser, f"/savings.csv?by=lane&{query}")
    (plan,) = rows_of(browser, f"/savings/plans.csv?{query}")
    assert (lane["origin"], lane["destination"], lane["saved"]) == ("'@SUM(A1), IL", "'+1, NJ", "-2")
    assert plan["external_id"] == "'=1+1"


def test_what_habits_would_have_paid_stands_beside_their_methods(world: World, fleet: Fleet, send: Send) -> None:
    compared, _ = send(fleet, 31.5, externalId="LOAD-1"), send(fleet, 2.0, externalId="LOAD-2")
    with world.database.transaction() as connection:
        connection.execute(
            "UPDATE habit_costs SET driven_at = planned_at, below_30_cents = 55000, cheapest_cents = 53000"
            " WHERE route_id = %s",
            (compared,),
        )
    browser = world.browser(Role.VIEWER, fleet)
    page = words(browser.look("/savings", **NOVEMBER))
    assert "once the tank is below 30 %. 1 $520.50 $550.00 $29.50 5.4 % 1 not compared yet" in page
    query = "&".join(f"{name}={value}" for name, value in NOVEMBER.items())
    by_habit = {row["habit"]: row for row in rows_of(browser, f"/savings/habits.csv?{query}")}
    assert (by_habit["cheapest"]["saved"], by_habit["cheapest"]["left_out"]) == ("9.5", "1")
    assert by_habit["usual"]["saved"] == ""
    assert by_habit["usual"]["why_left_out"] == "1 not compared yet; 1 too few fills in the quarter before"
    plans = {row["external_id"]: row["below_30_cost"] for row in rows_of(browser, f"/savings/plans.csv?{query}")}
    assert plans == {"LOAD-1": "550", "LOAD-2": ""}


def test_a_statement_is_shown_as_it_was_sent_and_since_then(world: World, fleet: Fleet, send: Send) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    assert "No statement was made yet" in words(browser.look("/savings/statements"))
    send(fleet, 31.5, externalId="LOAD-1")
    with world.database.transaction() as connection:
        connection.execute("UPDATE habit_costs SET driven_at = planned_at WHERE company_id = %s", (fleet.company_id,))
        made_at = datetime(2026, 12, 5, 15, tzinfo=UTC)
        make_statement(connection, fleet.company_id, date(2026, 11, 1), DOT, contacts=IN_CLEAR, now=made_at)
    page = words(browser.look("/savings/statements"))
    assert "Statement of savings, November 2026" in page
    assert "Saved as planned $31.50: 150.0 gal for $520.50 instead of $552.00" in page
    assert "Nothing of this month has changed." in page
    send(fleet, 2.0, externalId="LATE")
    assert "Since then +1 plan; planned +$2.00." in words(browser.look("/savings/statements", month="2026-11"))
    assert browser.get("/savings/statement.pdf?month=2026-11").content.startswith(b"%PDF")
    (trip,) = csv.DictReader(io.StringIO(browser.get("/savings/statement.csv?month=2026-11").text))
    figures = [trip[name] for name in ("unit_number", "planned_cost", "saved", "usual_cost")]
    assert figures == ["101", "520.5", "31.5", ""]
    assert "driver" not in ",".join(trip)
    assert browser.get("/savings/statements?month=2026-13").status_code == 400
    other = world.browser(Role.OWNER, world.new_fleet())
    for path in ("/savings/statements", "/savings/statement.pdf", "/savings/statement.csv"):
        assert other.get(f"{path}?month=2026-11").status_code == 404


# --- Companies and roles ---------------------------------------------------------------------------------------


def test_another_company_and_the_other_environment_stay_apart(world: World, fleet: Fleet, send: Send) -> None:
    with world.database.transaction() as connection:
        other = make_fleet(connection)
    send(fleet, 31.5, externalId="MINE")
    send(fleet, 5.0, externalId="TRIED", sandbox=True)
    send(other, 77.0, externalId="THEIRS")
    browser = world.browser(Role.VIEWER, fleet)
    assert "$31.50 saved by 1 plan" in words(browser.look("/savings", **NOVEMBER))
    assert "$5.00 saved by 1 plan" in words(browser.look("/savings", environment="sandbox", **NOVEMBER))
    truck, driver = shown_id("veh", other.trucks[0]), shown_id("drv", other.drivers[0])
    one_of_theirs: list[Fields] = [{"vehicle": truck}, {"driver": driver}]
    for query in one_of_theirs:
        assert "No plan counts here" in words(browser.look("/savings/plans", **query, **NOVEMBER))
    for path in ("/savings.csv", "/savings/plans.csv"):
        assert "THEIRS" not in browser.get(path, params=NOVEMBER).text
    assert "$77.00 saved by 1 plan" in words(world.browser(Role.OWNER, other).look("/savings", **NOVEMBER))


@pytest.mark.parametrize("path", PATHS)
def test_savings_need_a_session_and_an_operator_chooses_a_company_first(world: World, path: str) -> None:
    assert world.browser().get(path).headers["location"].startswith("/sign-in")
    assert world.browser(Role.OPERATOR).get(path).headers["location"] == "/companies"
    for role in (Role.VIEWER, Role.DISPATCHER, Role.OWNER):
        assert world.browser(role).get(path).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_invalid_parameters_are_refused_with_a_sentence(world: World, path: str) -> None:
    browser = world.browser(Role.VIEWER)
    cases: list[tuple[dict[str, str], int, str]] = [
        ({"from": "no day"}, 400, "Go back and correct the day in “from”."),
        ({"to": "2026-02-30"}, 400, "Go back and correct the day in “to”."),
        ({"from": "0001-01-01", "to": "0001-01-02"}, 400, "0001-01-01 is out of range"),
        ({"from": "9999-12-31", "to": "9999-12-31"}, 400, "9999-12-31 is out of range"),
        ({"from": "2026-11-30", "to": "2026-11-01"}, 400, "The span ends on 2026-11-01, before it begins"),
        ({"from": "2024-01-01", "to": "2026-11-01"}, 400, "longer than 366 days"),
        ({"vehicle": "veh_1"}, 404, "Not found"),
        ({"driver": "veh_" + "0" * 32}, 404, "Not found"),
        ({"by": "a" * 201}, 400, "By is too long"),
    ]
    for query, status, sentence in cases:
        answer = browser.get(path, params=query)
        assert (answer.status_code, sentence in words(answer.text)) == (status, True), answer.text
    harmless: list[dict[str, str]] = [
        {"by": "planet", "order": "beauty", "direction": "sideways", "environment": "dream"},
        {"page": "999999999999999999"},
        {"page": "-1"},
        {"origin": "%00\x00%ED%A0%80\ud7ff", "destination": "'; DROP TABLE savings --"},
        {"origin": "x" * 5000},
    ]
    for query in harmless:
        assert browser.get(path, params=query).status_code == 200, query


@pytest.mark.usefixtures("three_plans")
def test_a_page_beyond_the_last_links_back(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    for path in ("/savings", "/savings/plans"):
        page = browser.look(path, page=7, **NOVEMBER)
        assert "The list is shorter by now." in words(page)
        assert "page=" not in links(page[page.index("The list is shorter") :], path)[0]

"""The driver's page over HTTP: for those with a link, within bounds, and without a trace of its token."""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.accounts.tokens import new_token
from domain.database import fence
from domain.database.connections import as_json
from domain.driver_page.answers import MOST_ANSWERS_OF_TRIP
from domain.ids import read_id, shown_id
from domain.settings import Settings
from ingress.api.rate_limits import PAGES_OF_LINK
from ingress.driver.rendering import STATIC
from tests.domain.driver_page.trips import (
    DriverTrip,
    at_stations,
    driven_trip,
    halted,
    offered_choice,
    token_of,
    truck_at,
)
from tests.factories import DOT, JOLIET, route_body
from tests.service import Client, Service, running_service

MOST_BYTES = 60_000


@pytest.fixture(scope="module")
def service(settings: Settings, logs: Path) -> Iterator[Service]:
    options = {"DRIVER_PAGE_URL": "https://drive.example.com", "LOG_LEVEL": "debug"}
    with running_service(settings, logs, processes=("ingress",), **options) as running_one:
        yield running_one


@pytest.fixture
def trip(client: Client, service: Service, now: datetime) -> DriverTrip:
    with service.database.transaction() as connection:
        return driven_trip(connection, client.fleet, now=now)


@pytest.fixture
def token(service: Service, trip: DriverTrip, now: datetime) -> str:
    with service.database.transaction() as connection:
        return token_of(connection, trip, now=now)


def test_the_page_shows_the_trip_and_its_headers_keep_the_link_secret(anonymous: httpx.Client, token: str) -> None:
    answer = anonymous.get(f"/d/{token}")

    assert answer.status_code == 200
    stop = "Lakeside Travel Plaza", "Hours: 24/7", "exit 122, on the right", "Love&#39;s 305"
    for told in ("Trip LOAD-1", "Truck 101", *stop):
        assert told in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-robots-tag"] == "noindex, nofollow"
    assert answer.headers["cache-control"] == "private, no-cache"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert token not in answer.text


@pytest.mark.parametrize("of_proxy", ["", "W/"], ids=["none", "one that compresses"])
def test_a_page_that_has_not_changed_is_not_sent_again(anonymous: httpx.Client, token: str, of_proxy: str) -> None:
    tag = anonymous.get(f"/d/{token}").headers["etag"]

    again = anonymous.get(f"/d/{token}", headers={"If-None-Match": f"{of_proxy}{tag}"})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)


def test_a_page_that_is_kept_shows_where_the_truck_is_now_and_whatever_else_has_changed(
    anonymous: httpx.Client, service: Service, client: Client, token: str, trip: DriverTrip, now: datetime
) -> None:
    def page(query: str = "") -> str:
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", anonymous.get(f"/d/{token}{query}").text))

    fleet, seen = client.fleet, []
    assert "The place of the truck is not known." in page()
    with service.database.transaction() as connection:
        truck_at(connection, fleet.live, fleet.trucks[0], now, 41.5, -87.9)
    for longitude in (-87.9, -87.2, -86.4):
        with service.database.transaction() as connection:
            connection.execute("UPDATE tracks SET longitude = %s WHERE vehicle_id = %s", (longitude, fleet.trucks[0]))
        seen.append([int(miles) for miles in re.findall(r"(\d+) mi from the truck", page())])
        assert page() == page()
        assert "desde" not in page()
        assert "Place of the truck as of" in page()
    assert [len(one) for one in seen] == [2, 2, 2]
    assert seen[0] > seen[1] > seen[2]
    assert page("?l=es") != page()
    assert page("?l=es") == page("?l=es")

    with service.database.transaction() as connection:
        halted(connection, trip, now, has_left=True)
    assert "Fuel stops behind you Lakeside Travel Plaza Reached" in page()
    with service.database.transaction() as connection:
        connection.execute("UPDATE tracks SET longitude = -80.0 WHERE vehicle_id = %s", (fleet.trucks[0],))
    assert page().count("from the truck") < 2, "a fuel stop is behind it"
    with service.database.transaction() as connection:
        set_policy(connection, fleet.company_id, Policy(prices_for_drivers=False), DOT)
    assert "$" not in page()


@pytest.mark.parametrize("forged", ["x", "%2e%2e", "%FF%FE", "a" * 3000, "*"])
def test_what_was_never_issued_is_not_found(anonymous: httpx.Client, token: str, forged: str) -> None:
    answers = {anonymous.get(f"/d/{one}").text for one in (forged, new_token(), token[:-1])}

    assert len(answers) == 1
    assert anonymous.get(f"/d/{forged}").status_code == 404
    assert "This link shows nothing" in answers.pop()


def test_a_link_that_has_expired_is_not_found(
    anonymous: httpx.Client, service: Service, token: str, trip: DriverTrip, now: datetime
) -> None:
    with service.database.transaction() as connection:
        connection.execute(
            "UPDATE routes SET status = 'completed', completed_at = now() - interval '25 hours' WHERE id = %s",
            (trip.route_id,),
        )

    assert anonymous.get(f"/d/{token}").status_code == 404


def test_a_link_has_so_many_pages_a_minute_and_takes_none_from_another(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, now: datetime
) -> None:
    first = anonymous.get(f"/d/{token}").status_code
    with ThreadPoolExecutor(16) as threads:
        statuses = Counter(threads.map(lambda _: anonymous.get(f"/d/{token}").status_code, range(PAGES_OF_LINK + 1)))
    refused = anonymous.get(f"/d/{token}")
    with service.database.transaction() as connection:
        other = token_of(connection, trip, now=now)

    assert (first, statuses) == (200, {200: PAGES_OF_LINK, 429: 1}), "the first look at a link is not counted"
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert "Too many requests" in refused.text
    assert anonymous.get(f"/d/{other}").status_code == 200


def test_a_token_is_in_no_log_and_no_metric(
    anonymous: httpx.Client, service: Service, client: Client, token: str, trip: DriverTrip, logs: Path
) -> None:
    bearer = {"Authorization": f"Bearer {client.key}"}
    anonymous.get(f"/d/{token}", headers=bearer)
    with service.database.transaction() as connection:
        connection.execute("UPDATE routes SET stops = '[{}]' WHERE id = %s", (trip.route_id,))
    assert anonymous.get(f"/d/{token}", headers=bearer).status_code == 503

    written = "".join(path.read_text() for path in logs.iterdir())
    assert "driver_page.failed" in written
    assert "/d/{token}" in written
    assert token not in written
    with service.database.transaction() as connection:
        rows = connection.execute("SELECT count(*) FROM request_log it WHERE it::text LIKE %s", (f"%{token}%",))
        assert rows.fetchone() == (0,)


def test_without_a_public_address_there_is_no_page(settings: Settings) -> None:
    from ingress.app import create_app

    assert not [one for one in create_app(settings).routes if getattr(one, "path", "").startswith("/d/")]


def test_all_that_a_phone_loads_is_small(anonymous: httpx.Client, token: str) -> None:
    page = anonymous.get(f"/d/{token}")
    names = re.findall(r'src="(/d/[^"]+)"', page.text)
    scripts = [anonymous.get(name) for name in (*names, "/d/worker.js")]

    assert [one.status_code for one in scripts] == [200, 200]
    assert len(page.content) + sum(len(one.content) for one in scripts) < MOST_BYTES / 2
    assert {path.name for path in STATIC.iterdir()} == {"page.js", "worker.js"}


def test_a_trip_of_fifty_stops_with_long_names_and_the_last_moments_that_there_are_is_shown(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str
) -> None:
    window = {"start": "0001-01-01T00:00:00Z", "end": "9999-12-31T23:59:59Z"}
    for letter, language in (("Long name ", "fr"), ("ਪੰਜਾਬੀ ", "pa"), ("'", "en")):
        stop = {**JOLIET, "name": letter * 50, "address": letter * 80, "arrivalWindow": window}
        with service.database.transaction() as connection:
            connection.execute("UPDATE routes SET stops = %s WHERE id = %s", (as_json([stop] * 50), trip.route_id))
            connection.execute("UPDATE companies SET time_zone = 'America/Chicago' WHERE id = %s", (trip.company_id,))
        page = anonymous.get(f"/d/{token}?l={language}")
        assert page.status_code == 200
        assert len(page.content) + sum(path.stat().st_size for path in STATIC.iterdir()) < MOST_BYTES


def test_while_a_company_leaves_for_another_cell_its_pages_ask_for_patience_and_phones_keep_their_answers(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str
) -> None:
    assert anonymous.get(f"/d/{token}").status_code == 200
    with service.database.transaction() as connection:
        fence.begin_copying(connection, trip.company_id, to_cell=2)
        fence.pause_company(connection, trip.company_id, holds=timedelta(seconds=60))
        fence.close_fence(connection, trip.company_id)

    closed = [anonymous.post(f"/d/{token}", data={"kind": "going"}) for _ in range(2)]

    assert [(one.status_code, one.headers["retry-after"]) for one in closed] == [(429, "2")] * 2
    with service.database.transaction() as connection:
        fence.resume_company(connection, trip.company_id)
        fence.forget_move(connection, trip.company_id)
    assert anonymous.get(f"/d/{token}").status_code == 200


def test_prices_are_left_out_where_the_policy_says_so(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str
) -> None:
    page = anonymous.get(f"/d/{token}").text
    assert "$3.455" in page
    assert "Price as of" in page
    with service.database.transaction() as connection:
        set_policy(connection, trip.company_id, Policy(prices_for_drivers=False), DOT)

    page = anonymous.get(f"/d/{token}").text

    assert "Lakeside Travel Plaza" in page
    assert "$" not in page
    assert "Price as of" not in page


# --- Answers ---------------------------------------------------------------------------------------------------


def form_of(page: str, kind: str, **more: str) -> dict[str, str]:
    """The fields of the form of that kind, as a browser without scripts sends them."""
    (form,) = [one for one in re.findall(r"<form.*?</form>", page, re.DOTALL) if f'name="kind" value="{kind}"' in one]
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)) | more


def answers(service: Service, trip: DriverTrip) -> list[tuple[str, str | None, float | None]]:
    with service.database.transaction() as connection:
        rows = connection.execute(
            "SELECT kind, reason, gallons FROM driver_answers WHERE route_id = %s ORDER BY id", (trip.route_id,)
        )
        return rows.fetchall()


@pytest.fixture
def stations(service: Service, trip: DriverTrip) -> None:
    with service.database.transaction() as connection:
        at_stations(connection, trip)


def test_a_driver_answers_without_scripts_and_a_form_that_is_sent_twice_is_one_answer(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, stations: None
) -> None:
    form = form_of(anonymous.get(f"/d/{token}").text, "going")

    first, again = (anonymous.post(f"/d/{token}", data=form) for _ in range(2))

    assert (first.status_code, first.headers["location"], again.status_code) == (303, f"/d/{token}", 303)
    assert answers(service, trip) == [("going", None, None)]
    assert "I go there.</p>" in anonymous.get(f"/d/{token}").text
    fueled = form_of(anonymous.get(f"/d/{token}").text, "fueled", volume="97,5", percent="", price="3.459")
    assert anonymous.post(f"/d/{token}", data=fueled).status_code == 303
    assert answers(service, trip)[1:] == [("fueled", None, 97.5)]
    assert "Keystone Fuel" in anonymous.get(f"/d/{token}").text


def test_one_answer_that_comes_many_times_at_once_is_one_and_makes_one_plan(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, stations: None
) -> None:
    form = form_of(anonymous.get(f"/d/{token}").text, "refused", reason="queue")

    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(lambda _: anonymous.post(f"/d/{token}", data=form).status_code, range(18)))

    assert statuses == [303] * 18
    assert answers(service, trip) == [("refused", "queue", None)]
    with service.database.transaction() as connection:
        asked = connection.execute("SELECT review_requests FROM routes WHERE id = %s", (trip.route_id,)).fetchone()
    assert asked is not None
    assert asked[0] <= 1


def test_answers_on_one_link_as_fast_as_they_go_harm_nobody(
    anonymous: httpx.Client,
    service: Service,
    client: Client,
    trip: DriverTrip,
    token: str,
    stations: None,
    now: datetime,
) -> None:
    with service.database.transaction() as connection:
        other = token_of(connection, trip, now=now)
    form = form_of(anonymous.get(f"/d/{token}").text, "fueled")
    senders, flood = 8, 300

    def answer(number: int) -> int:
        said = form | {"key": f"flood-{number:04d}", "volume": str(1 + number)}
        return anonymous.post(f"/d/{token}", data=said).status_code

    with ThreadPoolExecutor(senders) as threads:
        statuses = threads.map(answer, range(flood))
        beside = [anonymous.get(f"/d/{other}").status_code for _ in range(10)]
        pushed = client.push(route_body(now)).status_code
        counts = Counter(statuses)

    assert set(counts) <= {303, 400, 429}, "each is taken, or told to wait or to call"
    assert 0 < len(answers(service, trip)) == counts[303] <= MOST_ANSWERS_OF_TRIP < flood
    assert (set(beside), pushed) == ({200}, 202)


def test_a_refusal_says_why_and_stays_on_the_page(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, stations: None
) -> None:
    form = form_of(anonymous.get(f"/d/{token}").text, "refused", reason="no_parking")

    anonymous.post(f"/d/{token}", data=form)

    assert answers(service, trip) == [("refused", "no_parking", None)]
    page = anonymous.get(f"/d/{token}").text
    assert "There is no parking." in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "fueled", "volume": "a lot"}, "How much fuel you bought is a number"),
        ({"kind": "refused", "reason": "mood"}, "Choose why you cannot fuel there."),
        ({"plan": "pln_0"}, "This answer could not be read"),
        ({"stop": "7"}, "The plan has no such fuel stop"),
        ({"key": ""}, "This answer could not be read"),
    ],
)
def test_an_answer_that_cannot_be_taken_is_refused_on_the_page(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, change: dict[str, str], said: str
) -> None:
    form = form_of(anonymous.get(f"/d/{token}").text, "going") | change

    refused = anonymous.post(f"/d/{token}", data=form)

    assert refused.status_code == 400
    assert said in refused.text
    assert "Lakeside Travel Plaza" in refused.text
    assert answers(service, trip) == []


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"a=" + b"x" * 5000, b"&".join([b"a=1"] * 100), b'{"kind": "going"}']
)
def test_a_body_that_is_no_form_changes_nothing(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, body: bytes
) -> None:
    assert anonymous.post(f"/d/{token}", content=body).status_code in (400, 413)
    assert answers(service, trip) == []


def test_a_forged_link_answers_nothing(anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str) -> None:
    form = form_of(anonymous.get(f"/d/{token}").text, "going")

    assert anonymous.post(f"/d/{new_token()}", data=form).status_code == 404
    assert answers(service, trip) == []


def test_an_answer_after_the_trip_is_kept_and_changes_nothing(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str
) -> None:
    form = form_of(anonymous.get(f"/d/{token}").text, "refused", reason="closed")
    with service.database.transaction() as connection:
        connection.execute(
            "UPDATE routes SET status = 'completed', completed_at = now() WHERE id = %s", (trip.route_id,)
        )

    assert anonymous.post(f"/d/{token}", data=form).status_code == 303

    page = anonymous.get(f"/d/{token}").text
    assert "This trip was completed" in page
    assert "<form" not in page
    assert answers(service, trip) == [("refused", "closed", None)]


# --- Choices ---------------------------------------------------------------------------------------------------


@pytest.fixture
def choice_id(service: Service, trip: DriverTrip) -> str:
    """A choice of another chain that costs $4.10 more."""
    with service.database.transaction() as connection:
        return shown_id("cho", offered_choice(connection, trip))


def status_of_choice(service: Service, choice_id: str) -> str:
    with service.database.transaction() as connection:
        row = connection.execute("SELECT status FROM plan_choices WHERE id = %s", (read_id("cho", choice_id),))
        (status,) = row.fetchone() or ("gone",)
    return str(status)


@pytest.mark.parametrize(
    ("allowance", "button", "status"), [(0, "Ask your dispatcher", "asked"), (5, "Choose this", "taken")]
)
def test_a_driver_takes_a_choice_within_the_allowance_and_asks_for_a_dearer_one(
    anonymous: httpx.Client,
    service: Service,
    trip: DriverTrip,
    token: str,
    choice_id: str,
    allowance: float,
    button: str,
    status: str,
) -> None:
    with service.database.transaction() as connection:
        set_policy(connection, trip.company_id, Policy(driver_allowance=allowance), DOT)
    page = anonymous.get(f"/d/{token}").text
    assert "Another chain: +\u00a0$4.10" in page
    assert f">{button}</button>" in page

    for _ in range(2):
        answer = anonymous.post(f"/d/{token}", data={"kind": "chosen", "choice": choice_id})
        assert answer.status_code == 303

    assert status_of_choice(service, choice_id) == status
    again = anonymous.get(f"/d/{token}").text
    assert ("Your dispatcher was asked and decides." in again) == (status == "asked")
    assert ("A new plan is being made." in again) == (status == "taken")


def test_a_choice_that_is_taken_many_times_at_once_is_taken_once(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, choice_id: str
) -> None:
    with service.database.transaction() as connection:
        set_policy(connection, trip.company_id, Policy(driver_allowance=5), DOT)
    form = {"kind": "chosen", "choice": choice_id}

    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(lambda _: anonymous.post(f"/d/{token}", data=form).status_code, range(12)))

    assert statuses == [303] * 12
    assert status_of_choice(service, choice_id) == "taken"
    with service.database.transaction() as connection:
        asked = connection.execute("SELECT review_requests FROM routes WHERE id = %s", (trip.route_id,)).fetchone()
    assert asked == (1,)


@pytest.mark.parametrize("choice", ["", "cho_0", "*", "cho_" + "0" * 32])
def test_a_choice_that_is_none_of_the_trip_is_refused_on_the_page(
    anonymous: httpx.Client, service: Service, token: str, choice_id: str, choice: str
) -> None:
    refused = anonymous.post(f"/d/{token}", data={"kind": "chosen", "choice": choice})

    assert refused.status_code == 400
    assert "This choice is not possible any more" in refused.text
    assert status_of_choice(service, choice_id) == "open"


def test_a_driver_reads_why_a_choice_cannot_be_taken(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, choice_id: str
) -> None:
    with service.database.transaction() as connection:
        connection.execute("UPDATE plan_choices SET status = 'declined' WHERE route_id = %s", (trip.route_id,))

    refused = anonymous.post(f"/d/{token}", data={"kind": "chosen", "choice": choice_id})

    assert refused.status_code == 400
    assert "Dispatch has declined it." in refused.text


# --- Languages -------------------------------------------------------------------------------------------------


def test_the_page_is_in_the_driver_s_language_and_units_until_he_chooses_another(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str
) -> None:
    with service.database.transaction() as connection:
        connection.execute("UPDATE drivers SET language = 'fr-CA' WHERE id = %s", (trip.driver_id,))

    own, chosen, unknown = (anonymous.get(f"/d/{token}{query}").text for query in ("", "?l=es", "?l=xx"))

    assert '<html lang="fr">' in own
    assert '<html lang="fr">' in unknown
    assert '<html lang="es">' in chosen
    assert "378,5 L" in own
    assert "378.5 L" in chosen
    for page in (own, chosen):
        assert 'aria-current="true"' in page


def test_an_answer_is_in_the_units_of_the_page_and_the_page_keeps_its_language(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, stations: None
) -> None:
    with service.database.transaction() as connection:
        connection.execute("UPDATE drivers SET language = 'en-CA' WHERE id = %s", (trip.driver_id,))
    form = form_of(anonymous.get(f"/d/{token}").text, "fueled", volume="378.54")

    answer = anonymous.post(f"/d/{token}?l=fr", data=form)

    assert answer.headers["location"] == f"/d/{token}?l=fr"
    ((kind, _, gallons),) = answers(service, trip)
    assert kind == "fueled"
    assert gallons == pytest.approx(100.0, abs=0.01)


def test_an_answer_that_waited_is_in_the_units_in_which_it_was_written(
    anonymous: httpx.Client, service: Service, trip: DriverTrip, token: str, stations: None
) -> None:
    with service.database.transaction() as connection:
        connection.execute("UPDATE drivers SET language = 'en-CA' WHERE id = %s", (trip.driver_id,))
    page = anonymous.get(f"/d/{token}").text
    assert 'name="price"' not in page, "no rate of exchange tells what his dollars are worth"
    form = form_of(page, "fueled", volume="378.54")
    with service.database.transaction() as connection:
        connection.execute("UPDATE drivers SET language = NULL WHERE id = %s", (trip.driver_id,))

    assert anonymous.post(f"/d/{token}", data=form).status_code == 303
    ((_, _, gallons),) = answers(service, trip)
    assert gallons == pytest.approx(100.0, abs=0.01)


@pytest.mark.parametrize(
    ("query", "asked", "language"),
    [
        ("", "pa-IN,pa;q=0.9,en;q=0.8", "pa"),
        ("?l=es", "fr-CA", "es"),
        ("", "so,fr-CA;q=0.8", "fr"),
        ("", "so", "en"),
        ("?l=xx", "", "en"),
    ],
)
def test_a_link_that_shows_nothing_says_so_in_the_language_of_the_phone(
    anonymous: httpx.Client, query: str, asked: str, language: str
) -> None:
    answer = anonymous.get(f"/d/{new_token()}{query}", headers={"Accept-Language": asked})

    assert answer.status_code == 404
    assert f'<html lang="{language}">' in answer.text

"""The driver's page over HTTP: for those with a link, within bounds, and without a trace of its token."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from domain.accounts.tokens import new_token
from domain.settings import Settings
from ingress.api.rate_limits import PAGES_OF_LINK
from ingress.driver.rendering import STATIC
from tests.domain.driver_page.trips import DriverTrip, driven_trip, token_of
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
    for told in ("Trip LOAD-1", "Truck 101", "Lakeside Travel Plaza", "exit 122, on the right", "Love&#39;s 305"):
        assert told in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-robots-tag"] == "noindex, nofollow"
    assert answer.headers["cache-control"] == "private, no-cache"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert token not in answer.text


def test_a_page_that_has_not_changed_is_not_sent_again(anonymous: httpx.Client, token: str) -> None:
    tag = anonymous.get(f"/d/{token}").headers["etag"]

    again = anonymous.get(f"/d/{token}", headers={"If-None-Match": tag})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)


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
    statuses = [anonymous.get(f"/d/{token}").status_code for _ in range(PAGES_OF_LINK + 2)]
    refused = anonymous.get(f"/d/{token}")
    with service.database.transaction() as connection:
        other = token_of(connection, trip, now=now)

    assert statuses == [200] * PAGES_OF_LINK + [429, 429]
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert "Too many requests" in refused.text
    assert anonymous.get(f"/d/{other}").status_code == 200


def test_a_token_is_in_no_log_and_no_metric(
    anonymous: httpx.Client, service: Service, client: Client, token: str, trip: DriverTrip, logs: Path
) -> None:
    bearer = {"Authorization": f"Bearer {client.key}"}
    anonymous.get(f"/d/{token}", headers=bearer)
    with service.database.transaction() as connection:
        connection.execute("UPDATE routes SET stops = '{}' WHERE id = %s", (trip.route_id,))
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

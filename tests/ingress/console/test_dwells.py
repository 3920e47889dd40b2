"""The page of a truck's time at a stop, and its signed statement."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from starlette.requests import Request
from starlette.responses import Response

from domain.ids import shown_id
from domain.lifecycle import Role
from ingress.console import addresses
from ingress.console.pages.routes import dwells
from tests.domain.helpers import driven_without_a_plan
from tests.ingress.console.conftest import World, words


def test_a_stop_has_a_page_and_a_signed_statement(world: World, now: datetime) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        route = shown_id("rte", driven_without_a_plan(connection, fleet, now - timedelta(hours=5)))
    browser = world.browser(Role.VIEWER, fleet)

    assert "Time at this stop" in words(browser.look(f"/routes/{route}"))
    page = words(browser.look(f"/routes/{route}/stops/1"))
    assert "Joliet terminal" in page
    assert "Free time 120 minutes" in page
    assert "until a statement is signed" in page
    for _ in range(2):
        file = browser.get(f"/routes/{route}/stops/1/statement.pdf")
        assert (file.status_code, file.headers["content-type"]) == (200, "application/pdf")
        assert file.content.startswith(b"%PDF-")
    assert "A statement of this stop was signed" in words(browser.look(f"/routes/{route}/stops/1"))


@pytest.mark.parametrize("stop", ["0", "3", "9999", "10000", "x", "-1", "²"])
def test_a_stop_that_was_not_visited_is_not_there(world: World, now: datetime, stop: str) -> None:
    fleet, other = world.new_fleet(), world.new_fleet()
    with world.database.transaction() as connection:
        route = shown_id("rte", driven_without_a_plan(connection, fleet, now))

    for path in (f"/routes/{route}/stops/{stop}", f"/routes/{route}/stops/{stop}/statement.pdf"):
        assert world.browser(Role.OWNER, fleet).get(path).status_code == 404
    assert world.browser(Role.OWNER, other).get(f"/routes/{route}/stops/1").status_code == 404


def test_the_libraries_of_signed_files_are_loaded_before_the_transaction_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []

    async def in_threads(_: Request, work: Callable[[], Response]) -> Response:
        return work()

    def answer(*_: object, **__: object) -> Response:
        steps.append("transaction")
        return Response()

    monkeypatch.setattr(dwells, "load_pdf_libraries", lambda: steps.append("libraries"))
    monkeypatch.setattr(dwells, "in_report_threads", in_threads)
    monkeypatch.setattr(addresses, "answer_signed_in", answer)
    (address,) = (one for one in dwells.ADDRESSES if one.path.endswith("statement.pdf"))
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}

    asyncio.run(address.endpoint(Request(scope)))

    assert steps == ["libraries", "transaction"]

"""Price files in the console: the preview and its mapping, held prices, sources, and what only operators may do."""

import asyncio
import re
from datetime import UTC, datetime
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.accounts.tokens import form_token
from domain.files import reading_ends
from domain.ids import shown_id
from domain.lifecycle import Role
from domain.settings import Settings
from domain.stations.price_sources import NewSource, SourceAddress, add_source
from tests.factories import DOT, Fleet, signed_in
from tests.ingress.console.conftest import Browser, World, client_of, console_in_process, words
from tests.ingress.console.records import stored_rows

LOVES = "Store No.,City,State,Retail Price,Best Discounted Price,Latitude,Longitude\n"


def send(browser: Browser, body: str, name: str = "prices.csv", **fields: str) -> httpx.Response:
    headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
    return browser.post("/prices", params={"filename": name, **fields}, content=body.encode(), headers=headers)


def row(store: str, net: str = "3.499", retail: str = "3.999") -> str:
    number = int(store)
    return f"{store},Elkhart,IN,{retail},{net},{31 + number % 9000 / 1000},{-101 - number // 9000 % 9000 / 1000}\n"


def new_store() -> str:
    """A store that no other test has: stations belong to no company."""
    return f"{int(uuid4().hex[:7], 16)}"


def quotes(world: World, fleet: Fleet) -> list[tuple[Any, ...]]:
    return stored_rows(
        world,
        "SELECT station_id, net_price FROM quotes WHERE company_id = %s ORDER BY effective_at, station_id",
        fleet.company_id,
    )


def import_as_operator(world: World, fleet: Fleet, *rows: str) -> Browser:
    browser = world.browser(Role.OPERATOR, fleet)
    answer = send(browser, LOVES + "".join(rows), act="import", profile="loves")
    assert answer.status_code == 303, answer.text
    return browser


def test_an_operators_file_adds_stations_and_an_owners_gives_net_prices_only(world: World) -> None:
    store, unknown = new_store(), new_store()
    import_as_operator(world, world.new_fleet(), row(store))
    fleet = world.new_fleet()
    owner = world.browser(Role.OWNER, fleet)

    answer = send(owner, LOVES + row(store, "3.399", "3.899") + row(unknown), act="import", profile="loves")

    said = words(owner.look(answer.headers["location"]))
    assert "prices.csv: 1 new, 0 changed, 0 unchanged, 0 held, 1 refused" in said
    assert quotes(world, fleet) == [(f"loves-{store}", 3.399)]
    retail = stored_rows(world, "SELECT retail_price FROM stations WHERE station_id = %s", f"loves-{store}")
    assert retail == [(3.999,)]
    query = "SELECT action, subject, affected FROM audit_log WHERE company_id = %s"
    entries = stored_rows(world, query, fleet.company_id)
    assert ("prices.import", "profile loves", 1) in entries
    refused = re.search(r"/price-runs/\w+\.csv", owner.look("/prices"))
    assert refused is not None
    assert "ask an operator" in owner.get(refused[0]).text
    assert world.browser(Role.OWNER, world.new_fleet()).get(refused[0]).status_code == 404


@pytest.mark.parametrize(("act", "status"), [("preview", 400), ("import", 303)])
def test_an_import_of_prices_may_read_longer_than_a_look(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch, act: str, status: int
) -> None:
    """Somebody else changes prices, so the file is read twice; or the machine is busy."""
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        session = signed_in(connection, Role.OPERATOR, fleet.company_id)
    beginning, after_15_s = 0.0, repeat(15.0)
    times = chain([beginning], after_15_s)
    monkeypatch.setattr(reading_ends, "time", SimpleNamespace(monotonic=lambda: next(times)))

    async def send_in_process() -> httpx.Response:
        async with console_in_process(settings) as app, client_of(app, session=session) as client:
            return await client.post(
                f"/prices?filename=prices.csv&profile=loves&act={act}",
                content=(LOVES + row(new_store())).encode(),
                headers={"Content-Type": "text/csv", "X-Form-Token": form_token(session, fleet.company_id)},
            )

    answered = asyncio.run(send_in_process())

    assert answered.status_code == status, words(answered.text)
    assert ("It takes too long to read: divide the file" in answered.text) is (act == "preview")


def test_the_preview_shows_rows_and_a_mapping_is_kept_as_a_profile(world: World) -> None:
    store = new_store()
    import_as_operator(world, world.new_fleet(), row(store))
    fleet = world.new_fleet()
    owner = world.browser(Role.OWNER, fleet)
    body = f"Prices of the day\nWhich,What,<b>Else\nloves-{store},349.9,x\n"

    first = send(owner, body, act="preview", profile="generic")
    mapping = {"field": "code,net_price,", "unit": "cents", "profile": "generic"}
    second = send(owner, body, act="preview", **mapping)

    assert first.status_code == 200
    assert "needs a column" in words(first.text)
    assert "&lt;b&gt;Else" in first.text
    assert quotes(world, fleet) == []
    assert "$3.499" in words(second.text)
    kept = send(owner, body, act="import", keep="ours", **mapping)
    assert kept.status_code == 303, kept.text
    assert quotes(world, fleet) == [(f"loves-{store}", 3.499)]
    assert "<option>ours</option>" in owner.look("/prices")
    again = send(owner, body.replace("349.9", "351.9"), act="import", profile="ours")
    assert again.status_code == 303
    assert [price for _, price in quotes(world, fleet)] == [3.499, 3.519]


def test_the_profile_is_recognized_by_the_headings_unless_a_person_chooses_one(world: World) -> None:
    store, fleet = new_store(), world.new_fleet()
    import_as_operator(world, fleet, row(store))
    owner = world.browser(Role.OWNER, fleet)

    preview = send(owner, LOVES + row(store, net="3.399"), act="preview", profile="auto")

    assert "Read by the profile loves" in words(preview.text)
    assert send(owner, LOVES + row(store, net="3.399"), act="import", profile="auto").status_code == 303
    assert quotes(world, fleet)[-1] == (f"loves-{store}", 3.399)
    unknown = send(owner, "Which,What\n1,2\n", act="preview", profile="auto")
    assert (unknown.status_code, "No profile fits this file" in words(unknown.text)) == (200, True)
    assert "Which" in words(unknown.text)


def test_files_that_cannot_be_read_are_told(world: World) -> None:
    owner = world.browser(Role.OWNER)

    for body, fields, said in (
        ("a,b\n1,2\n", {"act": "import"}, "needs a column"),
        ("", {"act": "preview"}, "empty"),
        ("a,b\n1,2\n", {"act": "preview", "profile": "nothing"}, "there is no profile"),
        ("a,b\n1,2\n", {"act": "preview", "field": "code"}, "those of another file"),
        ("a,b\n1,2\n", {"act": "preview", "field": "code,code"}, "two columns"),
        ("a,b\n1,2\n", {"act": "preview", "field": "code,hello"}, "no field"),
        ("a,b\n1,2\n", {"act": "import", "field": "code,net_price", "keep": "loves"}, "built in"),
    ):
        answer = send(owner, body, **fields)
        assert answer.status_code == 400, answer.text
        assert said.lower() in words(answer.text).lower()


def test_a_held_price_is_accepted_or_refused_with_an_entry_in_the_audit_log(world: World) -> None:
    store, other = new_store(), new_store()
    fleet = world.new_fleet()
    import_as_operator(world, fleet, row(store), row(other))
    owner = world.browser(Role.OWNER, fleet)
    send(owner, LOVES + row(store, "2.2") + row(other, "2.1"), act="import", profile="loves")

    page = owner.look("/prices")
    addresses = re.findall(r"/prices/hld_\w+/accept", page)
    assert len(addresses) == 2
    assert "2.200 is 37 % less than the price before, 3.499" in words(page)
    assert world.browser(Role.OWNER, world.new_fleet()).submit(addresses[0]).status_code == 404
    assert owner.submit(addresses[0]).status_code == 303
    assert owner.submit(addresses[1].replace("accept", "refuse")).status_code == 303
    assert owner.submit(addresses[0]).status_code == 404

    assert "No price is held" in words(owner.look("/prices"))
    assert 2.2 in [price for _, price in quotes(world, fleet)]
    assert 2.1 not in [price for _, price in quotes(world, fleet)]
    actions = stored_rows(world, "SELECT action FROM audit_log WHERE company_id = %s", fleet.company_id)
    assert {("prices.accept",), ("prices.refuse",)} <= set(actions)


def test_only_operators_accept_retail_prices(world: World) -> None:
    store, fleet = new_store(), world.new_fleet()
    import_as_operator(world, fleet, row(store))
    operator = import_as_operator(world, fleet, row(store, "", "9.9"))
    (address,) = re.findall(r"/prices/hld_\w+/accept", operator.look("/prices"))

    assert world.browser(Role.OWNER, fleet).submit(address).status_code == 400
    assert operator.submit(address).status_code == 303


def test_a_source_is_paused_and_resumed_by_its_own_company_only(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        source_id = add_source(
            connection,
            fleet.company_id,
            NewSource("daily", "folder", "loves", SourceAddress("/tmp"), None, takes_retail=False),
            DOT,
            contacts=IN_CLEAR,
            now=datetime(2026, 1, 1, tzinfo=UTC),
        )
    owner, address = world.browser(Role.OWNER, fleet), f"/price-sources/{shown_id('src', source_id)}"

    assert "late since" in words(owner.look("/prices"))
    assert world.browser(Role.OWNER, world.new_fleet()).submit(f"{address}/pause").status_code == 404
    assert owner.submit(f"{address}/pause").status_code == 303
    assert "paused" in words(owner.look("/prices"))
    assert owner.submit(f"{address}/resume").status_code == 303


def test_dispatchers_see_no_price_files(world: World) -> None:
    assert world.browser(Role.DISPATCHER).get("/prices").status_code == 404

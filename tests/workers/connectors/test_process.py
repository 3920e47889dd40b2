"""The process of connectors, as an operator has it: killed anywhere, two at a time, beside vendors that misbehave."""

import random
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import change_access
from domain.database.connections import Database
from domain.settings import Settings
from tests.factories import DOT, JOLIET, Fleet
from tests.vendors.samsara import Samsara, running_samsara
from tests.vendors.vendor import Answer, Request, running
from tests.workers.connectors.polling import (
    LOOPBACK,
    connected,
    fleet_of_its_own,
    leases_run_out,
    polling,
    row_of,
    times_of,
    wait_until,
)


@pytest.fixture
def own_fleet(database: Database) -> Iterator[Fleet]:
    with fleet_of_its_own(database) as fleet:
        yield fleet


def credentials(vendor: Samsara) -> dict[str, str]:
    return {"token": vendor.token}


def is_within(seen: list[int]) -> bool:
    """True once a kill fell into the work."""
    return any(0 < stored < 600 for stored in seen)


def test_killed_at_any_point_nothing_is_lost_and_nothing_comes_twice(
    settings: Settings, database: Database, own_fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    rolled = random.Random(7)
    with running_samsara() as vendor:
        vendor.page_size = 4
        for number in range(600):
            at = now - timedelta(seconds=600 - number)
            vendor.report(("101", "102")[number % 2], JOLIET["latitude"], JOLIET["longitude"] + number / 1e5, at)
        connector = connected(database, own_fleet.live, "samsara", vendor.url, credentials(vendor))
        with database.transaction() as connection:  # all that the vendor has, and not its newest alone
            connection.execute("UPDATE connectors SET cursor = 'cursor-0' WHERE id = %s", (connector.id,))
        seen: list[int] = []
        while len(seen) < 6 or (not is_within(seen) and len(seen) < 60):
            with polling(settings, tmp_path, f"killed {len(seen)}") as process:
                before = len(vendor.requests)
                wait_until(lambda before=before: len(vendor.requests) > before)
                time.sleep(rolled.uniform(0, 0.3))
                process.kill()
            seen.append(len(times_of(database, own_fleet)))
            leases_run_out(database, connector)
        with polling(settings, tmp_path):
            wait_until(lambda: len(times_of(database, own_fleet)) == 600)
        asked = [request.query.get("after") for request in vendor.requests]

    assert is_within(seen), "no kill fell into the work"
    assert len(set(times_of(database, own_fleet))) == 600
    row = row_of(database, connector)
    assert (row.cursor, row.fixes, row.left_out) == ("cursor-600", 600, {})
    assert len(asked) - len(set(asked)) <= len(seen) + asked.count("cursor-600"), (
        "a page was asked for again without a kill"
    )


def test_two_processes_share_and_the_one_that_is_left_takes_over(
    settings: Settings, database: Database, own_fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    with running_samsara() as vendor:
        connector = connected(database, own_fleet.live, "samsara", vendor.url, credentials(vendor))
        with polling(settings, tmp_path, "first") as first:
            wait_until(lambda: row_of(database, connector).answered_at is not None)
            with polling(settings, tmp_path, "second") as second:
                wait_until(lambda: "connectors.ready" in second.log.read_text())
                time.sleep(2.5)  # a look of the second one; a slow one looks later and proves less
                assert row_of(database, connector).leased_by.endswith(f":{first.pid}")
                number = row_of(database, connector).lease_number

                assert first.stop() == 0

                wait_until(lambda: (row_of(database, connector).leased_by or "").endswith(f":{second.pid}"))
                assert row_of(database, connector).lease_number == number + 1
                vendor.report("101", JOLIET["latitude"], JOLIET["longitude"], now)
                wait_until(lambda: times_of(database, own_fleet) == [now])
                assert second.stop() == 0
    assert row_of(database, connector).leased_until is None


class Endless(Samsara):
    """There is always another page."""

    def answer(self, request: Request) -> Answer:
        answer = super().answer(request)
        answer.document["pagination"] = {"endCursor": f"page-{len(self.requests)}", "hasNextPage": True}
        return answer

    def _feed(self, query: dict[str, str]) -> Answer:
        return super()._feed({**query, "after": "cursor-0"})


class Empty(Samsara):
    """One page of three and a half million empty vehicles, in less than sixteen megabytes."""

    def answer(self, request: Request) -> Answer:
        return Answer({"data": [{}] * 3_500_000, "pagination": {"endCursor": "1", "hasNextPage": False}})


class Huge(Samsara):
    """One page of a hundred megabytes."""

    def answer(self, request: Request) -> Answer:
        padding, end = "x" * (100 << 20), {"endCursor": "1", "hasNextPage": False}
        return Answer({"data": [], "padding": padding, "pagination": end})


def test_a_vendor_that_misbehaves_costs_no_other(
    settings: Settings, database: Database, own_fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    with (
        running(Endless()) as endless,
        running(Huge()) as huge,
        running(Empty()) as empty,
        running_samsara() as hanging,
        running_samsara() as good,
    ):
        hanging.fail("hang", "hang", "hang")
        bad = {
            name: connected(database, own_fleet.live, "samsara", vendor.url, credentials(vendor), name=name)
            for name, vendor in (("endless", endless), ("huge", huge), ("empty", empty), ("hanging", hanging))
        }
        connector = connected(database, own_fleet.live, "samsara", good.url, credentials(good))
        began = time.monotonic()
        with polling(settings, tmp_path):
            wait_until(lambda: row_of(database, connector).answered_at is not None)
            wait_until(lambda: row_of(database, bad["huge"]).last_error is not None)
            wait_until(lambda: row_of(database, bad["empty"]).last_error is not None)
            wait_until(lambda: len(endless.requests) > 20)
            good.report("101", JOLIET["latitude"], JOLIET["longitude"], now)
            wait_until(lambda: times_of(database, own_fleet) == [now])
            took = time.monotonic() - began
            hundred = len(endless.requests)

    assert hundred < 50 * (1 + took), "another vendor's pages came first"
    assert "16 MB" in row_of(database, bad["huge"]).last_error
    assert "values" in row_of(database, bad["empty"]).last_error
    assert row_of(database, bad["hanging"]).answered_at is None


def test_limits_are_obeyed_and_a_refusal_says_what_to_do(
    settings: Settings, database: Database, own_fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    with running_samsara() as vendor:
        vendor.fail("limit")
        connector = connected(database, own_fleet.live, "samsara", vendor.url, {"token": "wrong"})
        with polling(settings, tmp_path):
            wait_until(lambda: row_of(database, connector).failures == 1)
            hurried = row_of(database, connector)
            wait_until(lambda: row_of(database, connector).failures == 2)
        refused = row_of(database, connector)
        count = len(vendor.requests)

    assert "less often" in hurried.last_error
    assert count == 2
    assert "does not take the credentials" in refused.last_error
    assert "new token" in refused.what_to_do
    assert (refused.due_at - now).total_seconds() > 10
    assert "wrong" not in refused.last_error + refused.what_to_do + (tmp_path / "connectors.log").read_text()


def test_a_cursor_of_another_account_is_given_up_and_people_are_told(
    settings: Settings, database: Database, own_fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    """The new token is of another organization: it takes the old place and has nothing behind it, for ever."""
    with running_samsara() as vendor:
        connector = connected(database, own_fleet.live, "samsara", vendor.url, credentials(vendor))
        vendor.report("101", JOLIET["latitude"], JOLIET["longitude"], now)
        with database.transaction() as connection:
            connection.execute("UPDATE connectors SET cursor = 'cursor-5000' WHERE id = %s", (connector.id,))
            change_access(
                connection,
                own_fleet.company_id,
                connector.id,
                DOT,
                credentials={"token": "of-another-organization"},
                allowed=AllowedHosts.read(LOOPBACK),
                contacts=IN_CLEAR,
            )
        vendor.token = "of-another-organization"
        with polling(settings, tmp_path):
            wait_until(lambda: times_of(database, own_fleet) == [now])
            wait_until(lambda: row_of(database, connector).remark is not None)
        asked = [request.query.get("after") for request in vendor.requests]
    assert asked[:2] == ["cursor-5000", None]
    row = row_of(database, connector)
    assert (row.cursor, row.cursor_doubted) == ("cursor-1", False)
    assert "brought nothing" in row.remark

"""One connector's polls: bounds on a page, and the page that is asked for after faults."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, cast

import psycopg
import pytest

from domain import clock
from domain.connectors.kinds.motive import Motive
from domain.connectors.kinds.samsara import Samsara
from domain.connectors.leases import ConnectorRow
from domain.connectors.page_storage import StoredPage
from domain.connectors.vendor import Access, Vendor, VendorFault, VendorHttp, VendorHurried, VendorPage, VendorVehicle
from domain.database.connections import Connection
from domain.ids import new_id
from domain.settings import Settings
from workers.connectors import poller as poller_module
from workers.connectors.poller import Poller, Store, _require_bounded


@pytest.mark.parametrize(
    ("cursor", "kept"),
    [
        (None, True),
        ("x" * 6_000, True),
        ("000000000000a1b2 00000000000c3d4e", True),
        ("x" * 6_001, False),
        ("a\x00b", False),
        ("a\ud800", False),
    ],
)
def test_a_cursor_that_cannot_be_kept_is_the_vendor_s_fault(cursor: str | None, kept: bool) -> None:
    """PostgreSQL keeps no NUL and no half of a pair. The page was asked for every three seconds for ever, as if the
    database were away, and nobody was told."""
    page = VendorPage([], [], cursor)
    if kept:
        _require_bounded(page, 1)
        return
    with pytest.raises(VendorFault, match="cannot be kept"):
        _require_bounded(page, 1)


_FAILED = VendorFault("it answered 500", status=500)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """True for each stored page after which the connector works again."""
    told: list[bool] = []

    def store_page(*_: object, ends_fault: bool, **__: object) -> StoredPage:
        told.append(ends_fault)
        return StoredPage(0, Counter(), None)

    monkeypatch.setattr(poller_module, "store_page", store_page)
    monkeypatch.setattr(poller_module, "note_failure", lambda *_, **__: None)
    return told


async def _asked(
    kind: type[Vendor], fault: VendorFault, failing: Collection[int], polls: int, *, failures: int = 0
) -> list[str | None]:
    """The cursors of some polls of a vendor with five pages, some of which fail, after these failures."""
    asked: list[str | None] = []

    class Pages(kind):  # type: ignore[misc, valid-type]
        async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
            asked.append(cursor)
            number = int(cursor or 1)
            if number in failing:
                raise fault
            units = [VendorVehicle(str(number))] if number < 6 else []
            return VendorPage(units, [], str(number + 1) if number < 5 else None, number < 5)

    async def store(leased: ConnectorRow, work: Callable[[Connection], object]) -> Any:
        return work(cast(Any, None))

    poller = _poller(kind, store, failures=failures)
    poller._vendor = Pages()
    for _ in range(polls):
        await poller._turn()
    return asked


def _poller(kind: type[Vendor], store: Store[Any], *, doubted: str | None = None, failures: int = 0) -> Poller:
    """A connector without a cursor, or with one that is in doubt."""
    is_doubted = doubted is not None
    row = ConnectorRow(
        new_id(), new_id(), "live", kind.kind, "http://vendor", "{}", doubted, 1, None, failures, is_doubted, None
    )
    return Poller(row, Settings(), store)


@pytest.mark.parametrize(
    ("kind", "fault", "failing", "asked"),
    [
        (Motive, _FAILED, [3], [None, "2", "3", "3", "4", "5", None, "2", "3", "3", "4"]),
        (Motive, _FAILED, [1], [None, None, "2", "3", "4", "5", None, None, "2"]),
        (Motive, _FAILED, [5], [None, "2", "3", "4", "5", "5", "6", None, "2"]),
        (Motive, _FAILED, [3, 4], [None, "2", "3", "3", "4", None, "2", "3", "3", "4"]),
        (Motive, _FAILED, range(1, 6), [None, None, "2", None, None, "2", None]),
        (Motive, VendorHurried("it asks to be asked less often", None), [3], [None, "2", *["3"] * 7]),
        (Samsara, _FAILED, [3], [None, "2", *["3"] * 7]),
    ],
)
def test_a_page_that_always_fails_keeps_no_other_away(
    kind: type[Vendor], fault: VendorFault, failing: Collection[int], asked: list[str | None], ends: list[bool]
) -> None:
    """Only where a cursor is the number of a page: any other is a place that must not be lost. A vendor that wants to
    be asked less often would never come to its last pages. Without a page the connector does not work again."""
    assert asyncio.run(_asked(kind, fault, failing, len(asked))) == asked
    assert True not in ends or kind is Samsara


@pytest.mark.parametrize("failures", range(2, 8))
def test_a_first_page_that_fails_keeps_no_other_away_in_another_process(failures: int, ends: list[bool]) -> None:
    """The process that has the lease next begins with the stored failures, which only a whole round ends."""
    asked = asyncio.run(_asked(Motive, _FAILED, [1], 7, failures=failures))
    assert "5" in asked


def test_a_vendor_is_given_its_time_also_while_the_database_is_away() -> None:
    """It was asked again after three seconds, like a vendor whose page cannot be stored."""

    class Hurried(Samsara):
        async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
            raise VendorHurried("it asks to be asked less often", 600)

    async def store(leased: ConnectorRow, work: Callable[[Connection], object]) -> Any:
        raise psycopg.OperationalError

    async def wait_seconds() -> float:
        poller = _poller(Samsara, store)
        poller._vendor = Hurried()
        await poller._turn()
        return (poller._due_at - clock.now()).total_seconds()

    assert asyncio.run(wait_seconds()) > 500


def test_a_cursor_in_doubt_stays_so_until_its_end_is_stored() -> None:
    """The newest positions came half an hour later, where the database was away at the first poll."""
    is_away = iter([True, False])

    class Silent(Samsara):
        async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
            return VendorPage([], [], cursor)

    async def store(leased: ConnectorRow, work: Callable[[Connection], object]) -> Any:
        if next(is_away):
            raise psycopg.OperationalError
        return StoredPage(0, Counter(), None)

    async def cursors() -> list[str | None]:
        poller = _poller(Samsara, store, doubted="of another account")
        poller._vendor = Silent()
        found = []
        for _ in range(2):
            await poller._turn()
            found.append(poller._cursor)
        return found

    assert asyncio.run(cursors()) == ["of another account", None]

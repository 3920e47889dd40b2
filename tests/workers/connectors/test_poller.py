"""One connector's polls: bounds on a page, and the page that is asked for after faults."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from domain.connectors.kinds.motive import Motive
from domain.connectors.kinds.samsara import Samsara
from domain.connectors.leases import ConnectorRow
from domain.connectors.page_storage import StoredPage
from domain.connectors.vendor import Access, Vendor, VendorFault, VendorHttp, VendorHurried, VendorPage
from domain.database.connections import Connection
from domain.ids import new_id
from domain.settings import Settings
from workers.connectors.poller import Poller, _require_bounded


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


async def _asked(kind: type[Vendor], fault: VendorFault, polls: int) -> list[str | None]:
    """The cursors of some polls of a vendor with five pages, whose third one fails."""
    asked: list[str | None] = []

    class Pages(kind):  # type: ignore[misc, valid-type]
        async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
            asked.append(cursor)
            number = int(cursor or 1)
            if number == 3:
                raise fault
            return VendorPage([], [], str(number + 1) if number < 5 else None, number < 5)

    async def store(leased: ConnectorRow, work: Callable[[Connection], object]) -> Any:
        return StoredPage(0, Counter(), None)

    row = ConnectorRow(new_id(), new_id(), "live", kind.kind, "http://vendor", "{}", None, 1, None, 0, False, None)
    poller = Poller(row, Settings(), store)
    poller._vendor = Pages()
    for _ in range(polls):
        await poller._turn()
    return asked


@pytest.mark.parametrize(
    ("kind", "fault", "then"),
    [
        (Motive, VendorFault("it answered 500", status=500), [None, "2", "3", "3", None, "2", "3"]),
        (Motive, VendorHurried("it asks to be asked less often", None), ["3"] * 7),
        (Samsara, VendorFault("it answered 500", status=500), ["3"] * 7),
    ],
)
def test_a_page_that_always_fails_keeps_no_other_away(
    kind: type[Vendor], fault: VendorFault, then: list[str | None]
) -> None:
    """Only where a cursor is the number of a page: any other is a place that must not be lost. A vendor that wants to
    be asked less often would never come to its last pages."""
    assert asyncio.run(_asked(kind, fault, 11)) == [None, "2", "3", "3", *then]

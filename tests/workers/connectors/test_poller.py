"""Bounds on a page that a vendor answers with."""

import pytest

from domain.connectors.vendor import VendorFault, VendorPage
from workers.connectors.poller import _require_bounded


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

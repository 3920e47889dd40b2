"""The status of a row's transaction: it counts, it takes a purchase back, or nothing was bought.

Cards have a flag, a status or a kind of transaction. An unknown status does not keep the row from counting."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from domain.fills.cells import RowFault, cell_line
from domain.fills.wide_rows import is_wide


class RowStatus(StrEnum):
    """The effect of a row."""

    COUNTS = "counts"
    TAKES_BACK = "takes back"
    NOTHING_BOUGHT = "nothing bought"


def status_of(given: Mapping[str, Any]) -> RowStatus:
    """The status of the row. Raises RowFault for a flag that is neither yes nor no."""
    if not (given.get("canceled") or given.get("status") or given.get("kind")):
        return RowStatus.COUNTS  # most rows
    said = [cell_line(given.get(name)) for name in ("status", "kind")]
    if any(_says(_NOTHING_BOUGHT, text) for text in said):
        return RowStatus.NOTHING_BOUGHT
    if any(_says(_HELD, text) for text in said) and _lacks_sale(given):
        return RowStatus.NOTHING_BOUGHT  # what was bought comes as a row of its own
    if _is_flagged(cell_line(given.get("canceled"))) or any(_says(_TAKEN_BACK, text) for text in said):
        return RowStatus.TAKES_BACK
    return RowStatus.COUNTS


def _lacks_sale(given: Mapping[str, Any]) -> bool:
    """True for a row without a quantity, or without a product in a file that has a column for it."""
    products = [cell_line(given[name]) for name in ("item", "item_name") if name in given]
    has_quantity = bool(given.get("quantity")) or is_wide(given)
    return not has_quantity or (bool(products) and not any(products))


_NOTHING_BOUGHT = re.compile(r"\b(?:DECLINED?|REJECT(?:ED)?|DENIED|FAILED|NOT APPROVED|UNAPPROVED)\b", re.IGNORECASE)
_HELD = re.compile(r"\b(?:AUTHORI[SZ](?:ED|ATION)|PRE-?AUTH\w*|PENDING|ON HOLD)\b", re.IGNORECASE)
"""The card has let a pump start; the row has the limit of the sale, not what was bought."""
_TAKEN_BACK = re.compile(
    r"\b(?:VOID(?:ED)?|CANCEL(?:L?ED)?|REVERS(?:AL|ED)|REFUND(?:ED)?|RETURN(?:ED)?|CHARGE[ -]?BACK)\b"
    r"|^CREDIT(?: MEMO| ADJUSTMENT)?$|^CR$",
    re.IGNORECASE,
)
_DENIES = re.compile(r"\b(?:NO|NOT|NON|NEVER)\b(?! APPROVED)", re.IGNORECASE)


def _says(pattern: re.Pattern[str], text: str) -> bool:
    return bool(text) and pattern.search(text) is not None and _DENIES.search(text) is None


def _is_flagged(text: str) -> bool:
    flag = text.upper()
    if flag in _NOT_CANCELED:
        return False
    if flag in _CANCELED or _says(_TAKEN_BACK, text):
        return True
    raise RowFault(f"the cancel flag is {flag!r}: Y and N are known")


_CANCELED = frozenset(("Y", "YES", "TRUE", "T", "1", "C", "V", "X"))
_NOT_CANCELED = frozenset(("", "-", "N", "NO", "FALSE", "F", "0", "N/A", "NONE", "NULL", "ACTIVE", "POSTED", "OK"))

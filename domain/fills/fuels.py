"""Tells tractor diesel from reefer fuel, DEF and everything else that a fuel card buys, by the item's code or name."""

import re
from enum import StrEnum


class Fuel(StrEnum):
    """The kind of a purchase. Only tractor diesel is compared with plans and counts for fuel tax."""

    TRACTOR = "tractor"
    REEFER = "reefer"
    DEF = "def"
    OTHER = "other"
    UNKNOWN = "unknown"
    """A person decides."""


_REEFER = re.compile(r"\b(?:REEFER|RFR|RFUEL|DYED|ULSR|REEF)\b")
_DEF = re.compile(r"\b(?:DEF[DCPB]?|DIESEL EXHAUST|EXHAUST FLUID|ADBLUE)\b")
_OTHER = re.compile(
    r"\b(?:CADV|CASH|ADVANCE|SCLE|SCALE|OIL|ADD|ADDITIVE|FEE|FEES|WASH|TIRE|TIRES|TOLL|PARK|PARKING|SHOWER|REPR|REPAIR"
    r"|PHON|FOOD|GROC|MDSE|MERCHANDISE|UNL|UNLEADED|GAS|GASOLINE|PROPANE|LUMPER|WWFL|ANTIFREEZE|LABR|PART|PARTS)\b"
)
_TRACTOR = re.compile(
    r"\b(?:ULSD|ULS[DP]\d*|DSL\d?|DIESEL|LSD|NO ?[12] DIESEL|D2|BDSL|BIODIESEL|B(?:2|5|10|20)|TRACTOR|RENEWABLE)\b"
)


def fuel_of_item(item: str | None) -> Fuel:
    """The kind of the item. The most special word decides: `Reefer diesel` is reefer fuel, `Diesel exhaust fluid` is
    DEF, `Diesel additive` is neither. An item that is not known stays unknown; no guess is made."""
    words = re.sub(r"[^A-Z0-9]+", " ", (item or "").upper())
    for fuel, pattern in (
        (Fuel.DEF, _DEF),
        (Fuel.REEFER, _REEFER),
        (Fuel.OTHER, _OTHER),
        (Fuel.TRACTOR, _TRACTOR),
    ):
        if pattern.search(words):
            return fuel
    return Fuel.UNKNOWN

"""The files of fuel cards: which column of a card's export holds what.

Names are compared without case, spaces and signs, so `State/ Prov` is `stateprov`. The fleet's own file may use the
names of the fields themselves. Where the names were found, and what only a card's customer can see, stands in the
README.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from domain.errors import FuelrouteError
from domain.fills.fuels import Fuel

FIELDS: dict[str, str] = {
    "card": "card number; only its last four digits are kept",
    "date": "day, or day and time",
    "time": "time on the clock of the place",
    "transaction": "transaction or invoice number",
    "unit": "unit number",
    "location": "name of the place",
    "code": "station code",
    "city": "city",
    "state": "state or province, two letters",
    "item": "product code or name",
    "quantity": "gallons or litres",
    "volume_unit": "unit of the quantity: G or L",
    "price": "price of a gallon that was paid, if there is no amount",
    "amount": "amount that was paid",
    "currency": "currency; USD unless it says otherwise",
    "canceled": "Y on a row that counts for nothing",
    "tractor_quantity": "gallons of tractor fuel, in a row for several products",
    "tractor_price": "its price of a gallon",
    "tractor_amount": "its amount",
    "reefer_quantity": "gallons of reefer fuel, in a row for several products",
    "reefer_price": "its price of a gallon",
    "reefer_amount": "its amount",
}
"""The fields of a fill, and what each holds."""

WIDE: dict[Fuel, tuple[str, str, str]] = {
    Fuel.TRACTOR: ("tractor_quantity", "tractor_price", "tractor_amount"),
    Fuel.REEFER: ("reefer_quantity", "reefer_price", "reefer_amount"),
}
"""The fields of a row that tells of several products."""


class CardProfile(NamedTuple):
    """A way to read a card's file. A field has the names of its columns, the best one first."""

    name: str
    title: str
    columns: Mapping[str, Sequence[str]]


class UnknownProfile(FuelrouteError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no profile {name!r}: use one of {', '.join(PROFILES)}")


_EFS = CardProfile(
    "efs",
    "EFS and WEX: transaction report",
    {
        "card": ("Card #", "Card Number", "Card"),
        "date": ("Tran Date", "Transaction Date", "POS Date"),
        "time": ("Tran Time", "Transaction Time", "POS Time"),
        "transaction": ("Transaction ID", "Transaction #", "Invoice", "Invoice #"),
        "unit": ("Unit", "Unit #", "Unit Number"),
        "location": ("Location Name", "Location"),
        "code": ("Location ID", "Location Code"),
        "city": ("City", "Location City"),
        "state": ("State/ Prov", "State/Province", "State", "Prov"),
        "item": ("Item", "Product", "Product Code"),
        "quantity": ("Qty", "Quantity"),
        "volume_unit": ("UOM", "Unit of Measure"),
        "price": ("Disc PPU", "Unit Price", "PPU"),
        "amount": ("Amt", "Amount"),
        "currency": ("Currency",),
    },
)
_COMDATA = CardProfile(
    "comdata",
    "Comdata: fuel purchases, a row for each transaction",
    {
        "card": ("Comchek Card Number", "Card Number", "Alt Card Number"),
        "date": ("Transaction Date",),
        "time": ("Transaction Time",),
        "transaction": ("Transaction Number",),
        "unit": ("Unit Number",),
        "location": ("Truck Stop Name", "Service Center Name"),
        "code": ("Truck Stop Code", "Service Center Code"),
        "city": ("Truck Stop City", "Service Center City"),
        "state": ("Truck Stop State", "Service Center State"),
        "tractor_quantity": ("Number of Tractor Gallons",),
        "tractor_price": ("Tractor Fuel Price Per Gallon",),
        "tractor_amount": ("Cost of Tractor Fuel",),
        "reefer_quantity": ("Number of Reefer Gallons",),
        "reefer_price": ("Reefer Price Per Gallon",),
        "reefer_amount": ("Cost of Reefer Fuel",),
        "currency": ("Billable Currency",),
        "canceled": ("Cancel flag",),
    },
)
_FLEET_ONE = CardProfile(
    "fleet-one",
    "Fleet One: transactions",
    {
        "card": ("Card Number", "Card #", "Card"),
        "date": ("Transaction Date", "Tran Date", "Date"),
        "time": ("Transaction Time", "Tran Time", "Time"),
        "transaction": ("Transaction Number", "Transaction ID", "Invoice Number", "Invoice"),
        "unit": ("Unit Number", "Unit", "Vehicle Number", "Vehicle"),
        "location": ("Merchant Name", "Location Name", "Site Name", "Merchant"),
        "code": ("Merchant Number", "Site ID", "Location ID"),
        "city": ("Merchant City", "City"),
        "state": ("Merchant State", "State/Province", "State"),
        "item": ("Product Description", "Product", "Product Code", "Item"),
        "quantity": ("Quantity", "Gallons", "Units", "Qty"),
        "volume_unit": ("Unit of Measure", "UOM"),
        "price": ("Net Price", "Price Per Gallon", "Unit Cost", "Unit Price"),
        "amount": ("Net Amount", "Amount", "Total", "Net Cost"),
        "currency": ("Currency",),
    },
)
_OWN = CardProfile("own", "Another card: columns with the names of the fields", {})

PROFILES: dict[str, CardProfile] = {one.name: one for one in (_EFS, _COMDATA, _FLEET_ONE, _OWN)}


def card_profile(name: str) -> CardProfile:
    """Raises UnknownProfile."""
    if name not in PROFILES:
        raise UnknownProfile(name)
    return PROFILES[name]


def fields_of_columns(profile: CardProfile, columns: Sequence[str]) -> list[str]:
    """For each column of a file the field that it holds; empty for one that is not used."""
    by_name: dict[str, int] = {}
    for number, title in enumerate(columns):
        by_name.setdefault(_plain(title), number)
    found = [""] * len(columns)
    for field in FIELDS:
        for name in (*profile.columns.get(field, ()), field):
            column = by_name.get(_plain(name))
            if column is not None and not found[column]:
                found[column] = field
                break
    return found


def missing_fields(fields: Sequence[str]) -> list[str]:
    """The fields without which a file tells of no fill."""
    needed = ["date", "unit", "state"]
    if not set(fields) & {"tractor_quantity", "reefer_quantity"}:
        needed += ["item", "quantity"]
        needed += ["amount"] if not set(fields) & {"amount", "price"} else []
    return [field for field in needed if field not in fields]


def _plain(name: str) -> str:
    signs = {"#": "number"}
    return re.sub(r"[^a-z0-9]", "", "".join(signs.get(letter, letter) for letter in name.lower()))

"""The exports of fuel cards: which columns hold the fields of a fill in each card's file.

The README says where the names of the columns were found, and what only a card's customer can see."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from domain.errors import FuelrouteError
from domain.files.products import Fuel
from domain.files.profiles import Column, FileProfile, plain_profile
from domain.files.reading import AUTO, recognize
from domain.fills.fields import FILL_FIELDS


class UnknownCard(FuelrouteError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no profile {name!r}: use one of {', '.join(CARDS)}")


class Card(NamedTuple):
    """A fuel card with known files."""

    profile: FileProfile
    title: str
    """The card and its files, in words for people."""
    products: Mapping[str, Fuel | None] = {}
    """Product codes with a meaning only in its files, without leading zeros; None for no fuel."""
    is_recognized: bool = True
    """False if a file gets the profile only when a person names the card."""


def _card(
    name: str,
    title: str,
    *,
    products: Mapping[str, Fuel | None] = {},
    is_recognized: bool = True,
    wide: Mapping[str, Sequence[str]] = {},
    needs: Sequence[str] = (),
    **columns: Sequence[str],
) -> Card:
    """A card with the names of its columns, by field; `wide` are those of fuels side by side. Each file has the fields
    of `needs`."""
    shared = {name: FILL_FIELDS.field(name) for name in ("canceled", "status", "kind")}
    usual = {name: field.usual_names for name, field in shared.items() if field is not None}
    named = {field: Column(tuple(names)) for field, names in {**usual, **columns, **wide}.items()}
    profile = FileProfile(name, "fills", named, needs=tuple(needs))
    return Card(profile, title, products, is_recognized)


def _generic() -> FileProfile:
    """A profile for any card. A column `Amount` or `Price` beside one for the paid amount is the one before discounts,
    and a column `Unit` beside `Unit Number` is that of the quantity."""
    plain = plain_profile(FILL_FIELDS)
    usual = {name: plain.columns[name].names[2:] for name in ("unit", "amount", "price", "retail_price")}
    return msgspec.structs.replace(
        plain,
        columns={
            **plain.columns,
            "unit": Column(("Unit Number", *usual["unit"])),
            "amount": Column(usual["amount"]),
            "price": Column(usual["price"]),
            "address": Column((*plain.columns["address"].names, "Location")),
            "retail_price": Column((*usual["retail_price"], "Price")),
        },
    )


def _of_invoices() -> FileProfile:
    """A profile for any card whose purchases are called by the truck stop's invoice: its day has a time, which the
    day of a booking has not."""
    generic = _generic()
    beside = {"date": "Invoice Date", "time": "Invoice Time"}
    names = {field: Column((*generic.columns[field].names, name)) for field, name in beside.items()}
    return msgspec.structs.replace(
        generic, name="invoices", columns={**generic.columns, **names}, recognized_by=(beside["time"],)
    )


_RELAY_FUELS = {
    **{"tractor": "Diesel", "reefer": "Reefer", "reefer_2": "Reefer_2"},
    **{"def": "DEF", "def_2": "DEF_Forecourt"},
}
_RELAY_COLUMNS = {
    **{"quantity": "Volume", "price": "Retail_Price", "amount": "Total_Gross"},
    **{"net_price": "Discounted_Price", "net_amount": "Total_Price"},
}
"""Relay has a column of each of these for each of its fuels: `total_gross diesel`."""

_CARDS = (
    _card(
        "efs",
        "EFS and WEX: transaction reports and exports, the portal's CSV",
        card=("Card #", "Card Number", "Card"),
        invoice=("Invoice", "Invoice #", "Invoice Number"),
        driver=("Driver Name",),
        date=("Transaction POS Date", "POS Date", "Tran Date", "Transaction Date"),
        time=("Transaction POS Time", "POS Time", "Tran Time", "Transaction Time"),
        transaction=("Transaction ID", "Transaction #", "Trans ID", "Invoice", "Invoice #"),
        unit=(
            *("Unit", "Unit #", "Unit Number", "Custom Vehicle/Asset ID", "Custom Vehicle ID", "Customer Vehicle ID"),
            *("Vehicle Number", "Emboss Line 2"),
        ),
        brand=("Merchant (Brand)",),
        address=("Merchant Address", "Location Address"),
        location=("Location Name", "Location", "Merchant Name"),
        code=("Location ID", "Location Code"),
        city=("City", "Location City", "Merchant City"),
        state=("State/ Prov", "State", "Prov", "Location State", "Merchant State / Province", "Merchant State"),
        item=("Item", "Product", "Product Code"),
        item_name=("Product Description", "Item Description"),
        quantity=("Qty", "Quantity", "Units"),
        volume_unit=("UOM", "Unit of Measure", "Unit"),
        price=("Disc PPU", "Net PPU"),
        retail_price=("Unit Price", "PPU", "Price Per Unit", "Unit Cost"),
        amount=("Amt", "Amount", "Net Cost", "Net Amount"),
        gross_amount=("Total Fuel Cost", "Gross Amount"),
        discount=("Disc Amt", "Discount Amount", "Discount"),
        exempt_tax=("Exempt Tax",),
        non_fuel_amount=("Total Non-Fuel Cost", "Non-Fuel Cost"),
        fee=("Fees", "Transaction Fee", "Transaction Fees"),
        currency=("Currency", "Transaction Currency"),
    ),
    _card(
        "comdata",
        "Comdata: fuel purchases, a row for each transaction",
        card=("Comchek Card Number", "Card Number", "Alt Card Number"),
        date=("Transaction Date",),
        time=("Transaction Time",),
        transaction=("Transaction Number",),
        invoice=("Truck Stop Invoice Number",),
        driver=("Driver's Name",),
        unit=("Unit Number", "Expanded Unit Number"),
        location=("Truck Stop Name", "Service Center Name"),
        code=("Truck Stop Code", "Service Center Code"),
        city=("Truck Stop City", "Service Center City"),
        state=("Truck Stop State", "Service Center State"),
        tractor_quantity=("Number of Tractor Gallons", "Diesel Gallons"),
        tractor_price=("Tractor Fuel Price Per Gallon", "Diesel Price Per Gallon"),
        tractor_amount=("Cost of Tractor Fuel", "Diesel Cost"),
        def_quantity=("DEF Gallons",),
        def_price=("DEF Price Per Gallon",),
        def_amount=("DEF Cost",),
        diesel_2_quantity=("#2 Diesel Gallons", "Number 2 Fuel Gallons"),
        diesel_2_amount=("#2 Diesel Cost", "Number 2 Fuel Cost"),
        diesel_2_net_price=("#2 Diesel",),
        diesel_2_net_amount=("#2 Diesel Cost Net Cost", "#2 Diesel Net Cost"),
        diesel_1_quantity=("#1 Diesel Gallons", "Number 1 Fuel Gallons"),
        diesel_1_price=("Number 1 Fuel PPG",),
        diesel_1_amount=("#1 Diesel Cost", "Number 1 Fuel Cost"),
        diesel_1_net_price=("#1 Diesel",),
        diesel_1_net_amount=("#1 Diesel Cost Net Cost", "#1 Diesel Net Cost"),
        reefer_quantity=("Number of Reefer Gallons", "Reefer Gallons"),
        reefer_price=("Reefer Price Per Gallon",),
        reefer_amount=("Cost of Reefer Fuel",),
        reefer_net_amount=("Reefer Cost Net Cost",),
        other_fuel_quantity=("Other Fuel Gallons",),
        other_fuel_price=("Other Fuel PPG",),
        other_fuel_amount=("Other Fuel Cost (1)", "Other Fuel Cost"),
        other_fuel_net_amount=("Other Fuel Cost Net Cost",),
        rebate=("Rebate Amount",),
        currency=("Billable Currency",),
    ),
    _card(
        "relay",
        "Relay: all transactions, in CSV",
        wide={
            f"{fuel}_{field}": (f"{column} {name}",)
            for fuel, name in _RELAY_FUELS.items()
            for field, column in _RELAY_COLUMNS.items()
        },
        date=("Processing Time",),
        transaction=("ID",),
        driver=("Driver (1)", "Driver"),
        unit=("Truck #",),
        brand=("Merchant Name",),
        location=("Location",),
        address=("Location Address",),
        city=("Location City",),
        state=("Location State",),
    ),
    _card(
        "fleet-one",
        "Fleet One: transactions",
        card=("Card Number", "Card #", "Card"),
        date=("Transaction Date", "Tran Date", "Date"),
        time=("Transaction Time", "Tran Time", "Time"),
        transaction=("Transaction Number", "Transaction ID", "Invoice Number", "Invoice"),
        invoice=("Invoice Number", "Invoice"),
        driver=("Driver Name", "Driver"),
        unit=("Unit Number", "Unit", "Vehicle Number", "Vehicle"),
        location=("Merchant Name", "Location Name", "Site Name", "Merchant"),
        code=("Merchant Number", "Site ID", "Location ID"),
        city=("Merchant City", "City"),
        state=("Merchant State", "State/Province", "State"),
        item=("Product Description", "Product", "Product Code", "Item"),
        quantity=("Quantity", "Gallons", "Units", "Qty"),
        volume_unit=("Unit of Measure", "UOM", "Unit"),
        price=("Net Price", "Net Unit Price"),
        retail_price=("Price Per Gallon", "Unit Cost", "Unit Price", "Retail Price"),
        amount=("Net Amount", "Net Cost", "Amount", "Total"),
        gross_amount=("Gross Amount", "Gross Cost", "Total Fuel Cost"),
        discount=("Discount", "Discount Amount", "Rebate"),
        currency=("Currency",),
    ),
    _card(
        "corpay",
        "Corpay: transactions of the portal",
        card=("Card No.",),
        date=("Transaction Date - Date",),
        time=("Transaction Date - Time",),
        transaction=("Transaction Number",),
        driver=("Cardholder Full Name",),
        location=("Vendor",),
        address=("Address",),
        state=("State",),
        item_name=("Product Description",),
        quantity=("Unit/Gallons",),
        price=("Net PPU/PPG",),
        retail_price=("Gross PPU/PPG",),
        amount=("Net Price",),
        gross_amount=("Gross Price",),
        discount=("Discount",),
        currency=("Currency",),
    ),
    _card(
        "bvd",
        "BVD: transactions and invoices",
        products={
            **{"TA": Fuel.TRACTOR, "TF": Fuel.REEFER, "DF": Fuel.DEF},
            **dict.fromkeys(("S", "AD", "O", "L", "C")),
        },
        card=("Card#", "Card Number"),
        date=("Date",),
        time=("Time",),
        transaction=("Auth Code",),
        driver=("Driver Name",),
        unit=("Unit #",),
        location=("Site Name",),
        code=("Site #",),
        city=("Site City",),
        state=("Prov/ST",),
        item=("Prod", "Product", "Product Code"),
        quantity=("QTY", "Quantity"),
        volume_unit=("UOM",),
        price=("Billed", "Billed PPU"),
        retail_price=("Retail", "Retail PPU"),
        amount=("Final AMT", "Final Amount"),
        gst=("GST",),
        pst=("PST",),
        hst=("HST",),
        qst=("QST",),
        discount=("Disc AMT", "Discount"),
        currency=("CUR", "Currency"),
    ),
    _card(
        "bvd-fuels",
        "BVD: transactions with columns for each fuel",
        needs=("tractor_net_amount",),  # elsewhere `Tractor` is the truck
        wide={
            **{"tractor_quantity": ("Tractor",), "tractor_net_amount": ("Tractor AMT",)},
            **{"tractor_net_price": ("Billed Price",), "tractor_price": ("Retail Price",)},
            **{"reefer_quantity": ("Reefer QTY",), "reefer_net_amount": ("Reefer AMT",)},
            **{"def_quantity": ("DEF QTY",), "def_net_amount": ("DEF AMT",)},
        },
        card=("Card #",),
        date=("Date",),
        time=("Time",),
        unit=("Unit #",),
        location=("Site Name",),
        city=("Site City",),
        state=("Prov/St Abb.",),
        volume_unit=("UOM",),
    ),
    _card(
        "pilot",
        "Pilot Flying J: all transactions",
        products={"20": Fuel.TRACTOR, "21": Fuel.TRACTOR, "33": Fuel.REEFER, "140": Fuel.DEF},
        is_recognized=False,  # no column of its file is its own: what it knows, the generic profile knows
        card=("Card Number", "Card #", "Card", "Card ID"),
        date=("Transaction Date", "Tran Date", "Date", "Transaction Date/Time", "Date/Time", "Purchase Date"),
        time=("Transaction Time", "Tran Time", "Time"),
        transaction=("Transaction Number", "Transaction #", "Transaction ID", "Transaction", "Ticket Number"),
        invoice=("Invoice Number", "Invoice #", "Invoice"),
        driver=("Driver Name", "Driver"),
        unit=("Unit Number", "Unit #", "Unit", "Vehicle Number", "Vehicle", "Truck Number", "Truck", "Tractor"),
        location=("Location", "Loc.", "Site", "Store", "Location Name", "Site Name", "Site Description"),
        city=("City", "Location City", "Site City"),
        state=("State", "State/Province", "Location State", "Site State"),
        item=("Product", "Product Code", "Prod", "Fuel Type", "Item", "Product Type"),
        item_name=("Product Description", "Product Name", "Description"),
        quantity=("Gallons", "Quantity", "Qty", "Volume", "Units"),
        volume_unit=("Unit of Measure", "UOM", "Unit"),
        price=("Net Price", "Disc PPU", "Discounted Price", "Your Price", "Net PPG", "Cost"),
        retail_price=("Retail Price", "Retail", "Retail PPU", "Price Per Gallon", "Unit Price", "PPG", "Price"),
        gross_amount=("Gross Amount", "Retail Amount", "Retail Total", "Gross Total"),
        discount=("Discount", "Discount Amount", "Total Discount", "Savings", "Total Savings"),
        amount=("Invoice Total", "Net Amount", "Net Total", "Total Amount", "Amount", "Total", "Amount Due"),
        fee=("Fee", "Fees", "Transaction Fee"),
        currency=("Currency",),
    ),
    Card(_of_invoices(), "Another card: a row for each invoice of a truck stop, with Invoice Date and Invoice Time"),
    Card(_generic(), "Another card"),
)
"""The known cards. A new card is one more entry here, and a file in `tests/cases/fills`."""

CARDS: Mapping[str, Card] = {one.profile.name: one for one in _CARDS}


def card_profile_of(
    path: Path, name: str, change: Callable[[FileProfile], FileProfile] = lambda one: one
) -> FileProfile:
    """The profile of this name, after `change`; for `auto` the one that fits the file's headings. Raises UnknownCard if
    there is none, and UnreadableFile if no profile fits."""
    if name != AUTO:
        return change(card_profile(name))
    return recognize(path, [change(one.profile) for one in CARDS.values() if one.is_recognized], FILL_FIELDS)


def card_profile(name: str) -> FileProfile:
    """The profile of a card. Raises UnknownCard, which lists the cards, if there is none."""
    if name not in CARDS:
        raise UnknownCard(name)
    return CARDS[name].profile

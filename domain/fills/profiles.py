"""The exports of fuel cards: the fields of a fill, and the columns that hold them in each card's file.

Where the names of the columns were found, and what only a card's customer can see, stands in the README.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from domain.errors import FuelrouteError
from domain.file_profiles.profiles import CellKind, Column, FileProfile, RecordField, RecordFields, plain_profile
from domain.file_profiles.reading import AUTO, recognize
from domain.fills.wide_rows import WIDE_FUELS


def _wide_fields() -> tuple[RecordField, ...]:
    """The fields of rows that tell of several fuels: quantity, price and cost of each, before and after the rebate."""
    return tuple(
        RecordField(f"{fuel.name}_{suffix}", label.format(fuel.label), kind)
        for fuel in WIDE_FUELS
        for suffix, label, kind in _WIDE_COLUMNS
    )


_WIDE_COLUMNS: tuple[tuple[str, str, CellKind], ...] = (
    ("quantity", "gallons of {}, beside those of other fuels", "number"),
    ("price", "price of the {} before the rebate", "amount"),
    ("amount", "cost of the {} before the rebate", "amount"),
    ("net_price", "price of the {} after the rebate", "amount"),
    ("net_amount", "cost of the {} after the rebate", "amount"),
)
_QUANTITIES = tuple(f"{fuel.name}_quantity" for fuel in WIDE_FUELS)
_COSTS = tuple(f"{fuel.name}_{suffix}" for fuel in WIDE_FUELS for suffix, _, _ in _WIDE_COLUMNS[1:])

FILL_FIELDS = RecordFields(
    "fills",
    (
        RecordField("card", "card number; its last four digits are kept", "code", ("Card #", "Card Number", "Card")),
        RecordField("date", "day, or day and time", "text", ("Transaction Date", "Tran Date", "Date")),
        RecordField("time", "time on the clock of the place", "text", ("Transaction Time", "Tran Time", "Time")),
        RecordField("transaction", "transaction or invoice number", "code", ("Transaction Number", "Invoice")),
        RecordField("invoice", "number of the truck stop's receipt, beside the card's own number", "code"),
        RecordField("driver", "driver's name; kept where no unit is named, for cards of drivers", "text"),
        RecordField("unit", "unit number", "code", ("Unit Number", "Unit", "Unit #", "Vehicle", "Truck")),
        RecordField("brand", "chain of the place, where its name lacks it", "text", ("Merchant (Brand)", "Chain")),
        RecordField("location", "name of the place", "text", ("Location Name", "Location", "Merchant Name")),
        RecordField("code", "station code", "code", ("Location ID", "Site ID", "Store Number")),
        RecordField("city", "city, or city and state", "text", ("Location City", "Merchant City")),
        RecordField(
            "state",
            "state or province; else it is read behind the city or the place",
            "text",
            ("State/ Prov", "State/Province", "Province", "Location State", "Merchant State", "ST"),
        ),
        RecordField("item", "product code or name", "text", ("Product", "Product Code", "Fuel Type")),
        RecordField("item_name", "name of the product, beside its code", "text", ("Product Description",)),
        RecordField("quantity", "gallons or litres", "number", ("Qty", "Gallons", "Units", "Volume")),
        RecordField("volume_unit", "unit of the quantity, G or L", "text", ("UOM", "Unit of Measure")),
        RecordField("price", "price of a gallon or litre after discounts", "amount", ("Disc PPU", "Net Price")),
        RecordField(
            "retail_price",
            "price of a gallon or litre before discounts",
            "amount",
            ("Unit Price", "Price per Unit", "Price per Gallon", "PPU", "PPG", "Unit Cost"),
        ),
        RecordField("amount", "amount that was paid, after discounts", "amount", ("Amt", "Net Amount", "Net Cost")),
        RecordField("gross_amount", "amount before discounts", "amount", ("Gross Amount", "Gross Cost")),
        RecordField("discount", "discount on the amount", "amount", ("Disc Amt", "Discount Amount")),
        RecordField("exempt_tax", "tax that was taken off the amount", "amount"),
        RecordField("non_fuel_amount", "the part of the amounts that is for no fuel", "amount"),
        RecordField("rebate", "rebate for all fuels of a row", "amount"),
        RecordField("currency", "currency, USD or CAD; EFS adds the unit of the quantity", "text"),
        RecordField("canceled", "Y on a row that does not count", "text", ("Cancel flag", "Voided")),
        *_wide_fields(),
    ),
    (
        ("date",),
        ("unit", "card"),
        ("state", "city", "location"),
        ("item", "item_name", *_QUANTITIES),
        ("quantity", *_QUANTITIES),
        ("amount", "gross_amount", "price", "retail_price", *_COSTS),
    ),
)
"""The fields of a purchase. A file may have its figures in many ways; `paid.py` says what was paid by them."""


class UnknownCard(FuelrouteError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no profile {name!r}: use one of {', '.join(CARD_PROFILES)}")


def _card(name: str, **columns: Sequence[str]) -> FileProfile:
    return FileProfile(name, "fills", {field: Column(tuple(names)) for field, names in columns.items()})


_EFS = _card(
    "efs",
    card=("Card #", "Card Number", "Card"),
    invoice=("Invoice", "Invoice #", "Invoice Number"),
    driver=("Driver Name",),
    date=("Transaction POS Date", "POS Date", "Tran Date", "Transaction Date"),
    time=("Transaction POS Time", "POS Time", "Tran Time", "Transaction Time"),
    transaction=("Transaction ID", "Transaction #", "Trans ID", "Invoice", "Invoice #"),
    unit=("Unit", "Unit #", "Unit Number", "Custom Vehicle/Asset ID", "Vehicle Number", "Emboss Line 2"),
    brand=("Merchant (Brand)",),
    location=("Location Name", "Location", "Merchant Name"),
    code=("Location ID", "Location Code"),
    city=("City", "Location City", "Merchant City"),
    state=("State/ Prov", "State", "Prov", "Location State", "Merchant State / Province", "Merchant State"),
    item=("Item", "Product", "Product Code"),
    item_name=("Product Description", "Item Description"),
    quantity=("Qty", "Quantity", "Units"),
    volume_unit=("UOM", "Unit of Measure"),
    price=("Disc PPU", "Net PPU"),
    retail_price=("Unit Price", "PPU", "Price Per Unit", "Unit Cost"),
    amount=("Amt", "Amount", "Net Cost", "Net Amount"),
    gross_amount=("Total Fuel Cost", "Gross Amount"),
    discount=("Disc Amt", "Discount Amount", "Discount"),
    exempt_tax=("Exempt Tax",),
    non_fuel_amount=("Total Non-Fuel Cost",),
    currency=("Currency", "Transaction Currency"),
)
_COMDATA = _card(
    "comdata",
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
    tractor_quantity=("Number of Tractor Gallons",),
    tractor_price=("Tractor Fuel Price Per Gallon",),
    tractor_amount=("Cost of Tractor Fuel",),
    diesel_2_quantity=("#2 Diesel Gallons", "Number 2 Fuel Gallons"),
    diesel_2_amount=("#2 Diesel Cost", "Number 2 Fuel Cost"),
    diesel_2_net_price=("#2 Diesel",),
    diesel_2_net_amount=("#2 Diesel Cost Net Cost", "#2 Diesel Net Cost"),
    diesel_1_quantity=("#1 Diesel Gallons", "Number 1 Fuel Gallons"),
    diesel_1_price=("Number 1 Fuel PPG",),
    diesel_1_amount=("#1 Diesel Cost", "Number 1 Fuel Cost"),
    diesel_1_net_price=("#1 Diesel",),
    diesel_1_net_amount=("#1 Diesel Cost Net Cost", "#1 Diesel Net Cost"),
    reefer_quantity=("Number of Reefer Gallons",),
    reefer_price=("Reefer Price Per Gallon",),
    reefer_amount=("Cost of Reefer Fuel",),
    reefer_net_amount=("Reefer Cost Net Cost",),
    other_fuel_quantity=("Other Fuel Gallons",),
    other_fuel_price=("Other Fuel PPG",),
    other_fuel_amount=("Other Fuel Cost (1)", "Other Fuel Cost"),
    other_fuel_net_amount=("Other Fuel Cost Net Cost",),
    rebate=("Rebate Amount",),
    currency=("Billable Currency",),
    canceled=("Cancel flag",),
)
_FLEET_ONE = _card(
    "fleet-one",
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
    volume_unit=("Unit of Measure", "UOM"),
    price=("Net Price", "Net Unit Price"),
    retail_price=("Price Per Gallon", "Unit Cost", "Unit Price", "Retail Price"),
    amount=("Net Amount", "Net Cost", "Amount", "Total"),
    gross_amount=("Gross Amount", "Gross Cost", "Total Fuel Cost"),
    discount=("Discount", "Discount Amount", "Rebate"),
    currency=("Currency",),
)
CARD_PROFILES: dict[str, FileProfile] = {
    **{one.name: one for one in (_EFS, _COMDATA, _FLEET_ONE)},
    "generic": plain_profile(FILL_FIELDS),
}
CARD_TITLES = {
    "efs": "EFS and WEX: transaction reports and exports, the portal's CSV",
    "comdata": "Comdata: fuel purchases, a row for each transaction",
    "fleet-one": "Fleet One: transactions",
    "generic": "Another card",
}


def card_profile_of(
    path: Path, name: str, change: Callable[[FileProfile], FileProfile] = lambda one: one
) -> FileProfile:
    """The profile of this name, after `change`; for `auto` the one that fits the file's headings. Raises UnknownCard,
    UnreadableFile."""
    if name != AUTO:
        return change(card_profile(name))
    return recognize(path, [change(one) for one in CARD_PROFILES.values()], FILL_FIELDS)


def card_profile(name: str) -> FileProfile:
    """Raises UnknownCard."""
    if name not in CARD_PROFILES:
        raise UnknownCard(name)
    return CARD_PROFILES[name]

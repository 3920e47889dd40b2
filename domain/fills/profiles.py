"""The exports of fuel cards: the fields of a fill, and the columns that hold them in each card's file.

Where the names of the columns were found, and what only a card's customer can see, stands in the README.
"""

from collections.abc import Sequence

from domain.errors import FuelrouteError
from domain.file_profiles.products import Fuel
from domain.file_profiles.profiles import Column, FileProfile, RecordField, RecordFields, plain_profile

WIDE: dict[Fuel, tuple[str, str, str]] = {
    Fuel.TRACTOR: ("tractor_quantity", "tractor_price", "tractor_amount"),
    Fuel.REEFER: ("reefer_quantity", "reefer_price", "reefer_amount"),
}
"""The fields of a row that tells of several products: quantity, price and amount of each."""

FILL_FIELDS = RecordFields(
    "fills",
    (
        RecordField("card", "card number; its last four digits are kept", "code", ("Card #", "Card Number", "Card")),
        RecordField("date", "day, or day and time", "text", ("Transaction Date", "Tran Date", "Date")),
        RecordField("time", "time on the clock of the place", "text", ("Transaction Time", "Tran Time", "Time")),
        RecordField("transaction", "transaction or invoice number", "code", ("Transaction Number", "Invoice")),
        RecordField("invoice", "number of the truck stop's receipt, beside the card's own number", "code"),
        RecordField("driver", "driver's name; kept where no unit is named, for cards of drivers", "text"),
        RecordField("unit", "unit number", "code", ("Unit Number", "Unit", "Unit #", "Vehicle")),
        RecordField("location", "name of the place", "text", ("Location Name", "Location", "Merchant Name")),
        RecordField("code", "station code", "code", ("Location ID", "Site ID", "Store Number")),
        RecordField("city", "city", "text"),
        RecordField("state", "state or province, two letters", "text", ("State/ Prov", "State/Province", "Province")),
        RecordField("item", "product code or name", "text", ("Product", "Product Code")),
        RecordField("quantity", "gallons or litres", "number", ("Qty", "Gallons")),
        RecordField("volume_unit", "unit of the quantity, G or L", "text", ("UOM", "Unit of Measure")),
        RecordField("price", "price of a gallon or litre as it was paid", "amount", ("Disc PPU", "Unit Price")),
        RecordField("amount", "amount that was paid", "amount", ("Amt", "Net Amount")),
        RecordField("currency", "currency, USD or CAD; EFS adds the unit of the quantity", "text"),
        RecordField("canceled", "Y on a row that does not count", "text", ("Cancel flag", "Voided")),
        RecordField("tractor_quantity", "gallons of tractor fuel, beside those of reefer fuel", "number"),
        RecordField("tractor_price", "price of the tractor fuel", "amount"),
        RecordField("tractor_amount", "amount paid for the tractor fuel", "amount"),
        RecordField("reefer_quantity", "gallons of reefer fuel, beside those of tractor fuel", "number"),
        RecordField("reefer_price", "price of the reefer fuel", "amount"),
        RecordField("reefer_amount", "amount paid for the reefer fuel", "amount"),
    ),
    (
        ("date",),
        ("unit", "card"),
        ("state",),
        ("item", "tractor_quantity", "reefer_quantity"),
        ("quantity", "tractor_quantity", "reefer_quantity"),
        ("amount", "price", "tractor_amount", "tractor_price", "reefer_amount", "reefer_price"),
    ),
)


class UnknownCard(FuelrouteError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no profile {name!r}: use one of {', '.join(CARD_PROFILES)}")


def _card(name: str, **columns: Sequence[str]) -> FileProfile:
    return FileProfile(name, "fills", {field: Column(tuple(names)) for field, names in columns.items()})


_EFS = _card(
    "efs",
    card=("Card #", "Card Number", "Card"),
    date=("Tran Date", "Transaction Date", "POS Date"),
    time=("Tran Time", "Transaction Time", "POS Time"),
    transaction=("Transaction ID", "Transaction #", "Invoice", "Invoice #"),
    invoice=("Invoice", "Invoice #", "Invoice Number"),
    driver=("Driver Name",),
    unit=("Unit", "Unit #", "Unit Number"),
    location=("Location Name", "Location"),
    code=("Location ID", "Location Code"),
    city=("City", "Location City"),
    state=("State/ Prov", "State", "Prov"),
    item=("Item", "Product", "Product Code"),
    quantity=("Qty", "Quantity"),
    volume_unit=("UOM", "Unit of Measure"),
    price=("Disc PPU", "Unit Price", "PPU"),
    amount=("Amt", "Amount"),
    currency=("Currency",),
)
_COMDATA = _card(
    "comdata",
    card=("Comchek Card Number", "Card Number", "Alt Card Number"),
    date=("Transaction Date",),
    time=("Transaction Time",),
    transaction=("Transaction Number",),
    invoice=("Truck Stop Invoice Number",),
    driver=("Driver's Name",),
    unit=("Unit Number",),
    location=("Truck Stop Name", "Service Center Name"),
    code=("Truck Stop Code", "Service Center Code"),
    city=("Truck Stop City", "Service Center City"),
    state=("Truck Stop State", "Service Center State"),
    tractor_quantity=("Number of Tractor Gallons",),
    tractor_price=("Tractor Fuel Price Per Gallon",),
    tractor_amount=("Cost of Tractor Fuel",),
    reefer_quantity=("Number of Reefer Gallons",),
    reefer_price=("Reefer Price Per Gallon",),
    reefer_amount=("Cost of Reefer Fuel",),
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
    price=("Net Price", "Price Per Gallon", "Unit Cost", "Unit Price"),
    amount=("Net Amount", "Amount", "Total", "Net Cost"),
    currency=("Currency",),
)
CARD_PROFILES: dict[str, FileProfile] = {
    **{one.name: one for one in (_EFS, _COMDATA, _FLEET_ONE)},
    "generic": plain_profile(FILL_FIELDS),
}
CARD_TITLES = {
    "efs": "EFS and WEX: transaction report",
    "comdata": "Comdata: fuel purchases, a row for each transaction",
    "fleet-one": "Fleet One: transactions",
    "generic": "Another card",
}


def card_profile(name: str) -> FileProfile:
    """Raises UnknownCard."""
    if name not in CARD_PROFILES:
        raise UnknownCard(name)
    return CARD_PROFILES[name]

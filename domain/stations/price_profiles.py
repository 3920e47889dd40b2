"""The fields of price files, and the built-in profiles of vendors.

Public material with the columns is named beside each profile. The README says what only a vendor can show."""

from collections.abc import Mapping

import msgspec

from domain.errors import FuelrouteError
from domain.files.csvfiles import UnreadableFile
from domain.files.profiles import (
    Column,
    FileProfile,
    FollowingField,
    RecordField,
    RecordFields,
    plain_name,
    plain_profile,
)
from domain.stations.chains import brand_of
from domain.stations.price_units import unit_of_price

_PUMP = (
    *("Retail", "Street Price", "Gross Price", "Pump Price", "Posted Price", "Posted Retail"),
    *("Diesel Retail Price", "Diesel Retail", "Retail Diesel", "Retail PPG", "Retail PPU"),
)
"""Names for the price on the sign, whatever other prices stand beside it."""
_ANY_PRICE = (
    *("Fuel Price", "Diesel Price", "Diesel"),
    *("Price per Gallon", "Price per Litre", "Price per Liter"),
)
_RETAIL = (*_PUMP, *_ANY_PRICE)
_NET = (
    "Best Discounted Price",
    "Your Price",
    "Customer Price",
    "Cost Plus Price",
    "Cost Plus",
    "Carrier Disc Price",
    "Carrier Price",
    "Disc. Price",
    "Discounted Price",
    "Discount Price",
    "Contract Price",
    "Net Price",
    "Net",
    "Final Price",
    "Price excl. GST/HST/PST",
    "Price Ex Tax",
    "Net PPG",
    "Net PPU",
    "Discounted PPG",
    "Disc PPG",
    "Disc PPU",
    "Effective Price",
)
"""Vendors' and brokers' names for the price of their customer; some change every few weeks."""
_SAVINGS = (
    *("Savings", "Saving", "Your Savings", "Total Savings", "Savings Total", "Savings/Gal", "Savings per Gallon"),
    *("Discount per Gallon", "Discount Amount", "Total Discount"),
)
_EFFECTIVE = (
    *("Effective Date", "Effective", "Price Date", "Price Updated At", "Updated At"),
    *("Last Updated", "Last Updated At", "Last Update", "Price Updated", "Updated"),
)


def _net_of_savings(retail: float | None, savings: float | None) -> float | None:
    """The net price by what a customer saves at the pump's price. None for savings that are none, or the other way
    round, as where the cost-plus price is above the pump's."""
    return round(retail - savings, 6) if retail and savings and 0 < savings < retail else None


PRICE_FIELDS = RecordFields(
    "prices",
    (
        RecordField(
            "code",
            "Station code",
            "code",
            ("station_id", "Store No.", "Store Number", "Store", "Site", "Site ID", "Site Number", "Location ID"),
        ),
        RecordField("card_code", "Code of the fuel card", "code", ("Billing Card Station Code",)),
        RecordField(
            "name",
            "Name",
            "text",
            (
                *("Station name", "Truckstop Name", "TS Name", "Location Name", "Site Name", "Store Name"),
                *("Travel Center", "Location"),
            ),
        ),
        RecordField("brand", "Brand", "text", ("Chain",)),
        RecordField("address", "Address", "text", ("Street", "Street Address", "Station Address")),
        RecordField("city", "City", "text", ("Town", "TS City", "City/State")),
        RecordField("state", "State", "text", ("State/Province", "ST", "TS State", "Province", "Prov", "Prv")),
        RecordField("latitude", "Latitude", "number", ("Lat",)),
        RecordField("longitude", "Longitude", "number", ("Lon", "Long", "Lng")),
        RecordField("retail_price", "Retail price", "amount", (*_PUMP, "Price", *_ANY_PRICE)),
        RecordField("net_price", "Net price", "amount", _NET),
        RecordField("savings", "Savings a gallon", "amount", _SAVINGS),
        RecordField("effective_at", "Effective", "moment", (*_EFFECTIVE, "priced_at")),
        RecordField("product", "Product", "text", ("Prod", "Product Code", "Product Name", "Fuel Type", "Grade")),
        RecordField("currency", "Currency", "text", ("Currency Code",)),
        RecordField("unit", "Unit", "text", ("UOM", "Unit of Measure")),
        RecordField("country", "Country", "text", ("Country Code",)),
        RecordField("store_type", "Type of the store", "text", ("Store Type",)),
    ),
    (("code", "card_code", "city", "name"), ("retail_price", "net_price")),
    has_marks=True,
    has_thousands=False,
    follows=(FollowingField("net_price", ("retail_price", "savings"), _net_of_savings),),
)

_PLACE = {
    "address": Column(("Address", "Street Address")),
    "city": Column(("City", "Town", "City/State")),
    "state": Column(("State", "ST", "State/Province", "Province", "Prov", "Prv")),
    "latitude": Column(("Latitude", "Lat")),
    "longitude": Column(("Longitude", "Lon", "Long", "Lng")),
}
_KINDS = {
    "product": Column(("Product", "Prod", "Product Code", "Product Name", "Fuel Type", "Grade")),
    "currency": Column(("Currency", "Currency Code")),
    "unit": Column(("Unit", "UOM", "Unit of Measure")),
    "country": Column(("Country", "Country Code")),
}
"""Columns that any vendor's file may have."""

_ABOVE = {
    "effective_at": Column(
        (
            "Effective Date",
            "Effective Dates",
            "Effective",
            "Prices Effective",
            "Price Effective",
            "Price Date",
            "Pricing Date",
            "As of",
            "Fuel prices are accurate as of",
        )
    ),
    "product": Column(("Product", "Fuel Type")),
    "currency": Column(("Currency",)),
    "unit": Column(("Unit", "UOM")),
}
"""Values for all rows in lines above the columns."""

BUILT_IN: Mapping[str, FileProfile] = {
    one.name: one
    for one in (
        # 24 columns, A to X, in the import page of a carrier: Customer, Loves Store No., City, State, Billing Card
        # Station Code, OPIS Rack ID, Retail Price, Retail Minus Discount, Retail Minus Discounted Price, OPIS / NYMEX
        # Rack, Pumping Fee, OPIS Discounted Price, Best Discounted Price, Total Taxes and Fees, Federal Taxes, State
        # Taxes, Other Taxes, Sales Tax, Freight Fee, Discounted Type Applied, Effective Date, DEF Retail Price,
        # Latitude, Longitude. (GitHub: Conard Transportation, the page "Prices - Loves") And six, which a broker sends
        # its carriers: Loves Store No. (later Loves Store), City, State, Retail Price, Disc. Price, Total Savings. The
        # chain's own download: StoreNumber, State, City, Address, HighwayOrExit, ..., StoreType, ..., Diesel, ...
        FileProfile(
            "loves",
            "prices",
            {
                "code": Column(("Store No.", "Loves Store No.", "Loves Store", "Loves Store Number", "Store Number")),
                "card_code": Column(("Billing Card Station Code",)),
                "name": Column(("Store Name", "Location Name", "Name")),
                "store_type": Column(("Store Type",)),
                **_PLACE,
                "retail_price": Column(("Retail Price", *_RETAIL)),
                "net_price": Column(("Best Discounted Price", *_NET)),
                "savings": Column(_SAVINGS),
                "effective_at": Column(_EFFECTIVE),
                **_KINDS,
            },
            constants={"brand": "Love's"},
            above=_ABOVE,
            needs=("code",),
            recognized_by=("Loves", "Store No.", "Best Discounted Price", "HighwayOrExit"),
            code_set="loves",
        ),
        # "Better Of Pricing Report", a file each morning: lines with the account and the effective date above Site,
        # City, ST, Prod, Rack ID, Rack City, Rack ST, Cost, taxes and fees, Total Cost, Retail Price, Disc Retail, Your
        # Price, Savings Total. The public list has Site, City, ST, Retail Price, for Canada in its own money. As a
        # workbook its first column is called Pilot Travel Center and has the numbers of the stores.
        FileProfile(
            "pilot",
            "prices",
            {
                "code": Column(
                    (
                        *("Site", "Site Number", "Site #", "Site ID", "Store", "Store Number", "Store #"),
                        *("Location ID", "Pilot Travel Center"),
                    )
                ),
                "name": Column(("Site Name", "Location Name", "Name")),
                **_PLACE,
                "retail_price": Column(("Retail Price", *_RETAIL)),
                "net_price": Column(("Your Price", *_NET)),
                "savings": Column(_SAVINGS),
                "effective_at": Column(_EFFECTIVE),
                **_KINDS,
            },
            constants={"brand": "Pilot Flying J"},
            above=_ABOVE,
            needs=("code",),
            recognized_by=("Site", "Site #", "Pilot", "FlyingJ"),
            code_set="pilot",
        ),
        # Type, #, Travel Center, ST, Retail Price, Carrier Disc Price, Total Savings: a list that a broker sends its
        # carriers. It has no town: "TA EXPRESS - BIRMINGHAM". Later the prices were named Fuel Price and Carrier Price.
        # The chain's own list: Location No., Travel Center, ST, Merchant ID, City/State, Product, Retail, Actual,
        # Savings.
        FileProfile(
            "ta",
            "prices",
            {
                "code": Column(
                    ("#", "Location No.", "Site ID", "Site", "Site #", "Location Number", "Location #", "Location")
                ),
                "name": Column(("Travel Center", "Site Name", "Location Name", "Name")),
                **_PLACE,
                "retail_price": Column(("Retail Price", *_RETAIL)),
                "net_price": Column(("Cost Plus Price", *_NET, "Actual")),
                "savings": Column(_SAVINGS),
                "effective_at": Column(_EFFECTIVE),
                **_KINDS,
            },
            constants={"brand": "TA Petro"},
            above=_ABOVE,
            needs=("code",),
            recognized_by=("Travel Center", "Location No.", "TravelCentersOfAmerica", "PetroStopping", "TAPetro"),
            code_set="ta",
        ),
        # Caseys Site #, Rack ID, State, Retail Price, Savings, which is N/A at some sites: a cost-plus list, whose
        # customer's price is the retail price less the savings.
        FileProfile(
            "caseys",
            "prices",
            {
                "code": Column(("Caseys Site #", "Caseys Site")),
                **_PLACE,
                "retail_price": Column(("Retail Price", *_RETAIL)),
                "net_price": Column(_NET),
                "savings": Column(_SAVINGS),
                "effective_at": Column(_EFFECTIVE),
                **_KINDS,
            },
            constants={"brand": "Casey's"},
            above=_ABOVE,
            needs=("code",),
            code_set="caseys",
        ),
        # OPIS Truckstop ID, Truckstop Name, Address, City, State, Rack ID, Retail Price: an extract that many public
        # repositories have as fuel-prices-for-be-assessment.csv. The address is an exit: "I-44, EXIT 283 & US-69".
        FileProfile(
            "opis",
            "prices",
            {
                "code": Column(("OPIS Truckstop ID", "OPIS ID", "Truckstop ID")),
                "name": Column(("Truckstop Name", "Name")),
                **_PLACE,
                "retail_price": Column(("Retail Price",)),
                "effective_at": Column(("Price Date", "Effective Date", "OPIS Price Date")),
                **_KINDS,
            },
            above=_ABOVE,
            needs=("code",),
            code_set="opis",
        ),
        # Site Name, Prv, Price excl. GST/HST/PST, FCT + FET, CBN + PFT + UTT, Base price excl. tax, in Canadian dollars
        # a litre; the date is above. Sites are named by their town.
        FileProfile(
            "petro_pass",
            "prices",
            {
                "name": Column(("Site Name",)),
                "state": Column(("Prv", "Prov", "Province")),
                "net_price": Column(("Price excl. GST/HST/PST",)),
            },
            constants={"brand": "Petro-Pass", "country": "Canada"},
            above=_ABOVE,
            needs=("net_price",),
            recognized_by=("Petro-Pass",),
        ),
        msgspec.structs.replace(plain_profile(PRICE_FIELDS), above=_ABOVE),
    )
}


CHAINS_OF_CODE_SETS: Mapping[str, frozenset[str]] = {
    one.code_set: brand_of(one.constants["brand"], "").chains
    for one in BUILT_IN.values()
    if one.code_set and "brand" in one.constants
}
"""A chain's own file is about its stations, even where a row names no brand."""


def with_usual_columns(profile: FileProfile) -> FileProfile:
    """The profile with columns that any vendor's file may have: product, currency, unit and country, where their
    columns are not used for anything else, and values above the columns. Profiles that companies have kept lack
    them."""
    taken = {plain_name(name) for column in profile.columns.values() for name in column.names}
    columns = dict(profile.columns)
    for field, column in _KINDS.items():
        names = tuple(name for name in column.names if plain_name(name) not in taken)
        if names and field not in columns:
            columns[field] = Column(names)
    return msgspec.structs.replace(profile, columns=columns, above={**_ABOVE, **profile.above})


def with_unit(profile: FileProfile, currency: str, unit: str) -> FileProfile:
    """The profile for a file with prices in this currency and unit, unless its rows say otherwise. Empty texts say
    nothing. Raises UnreadableFile, with the reason, if one is unknown."""
    given = {name: text for name, text in (("currency", currency), ("unit", unit)) if text}
    try:
        unit_of_price(currency, unit, "US")
    except ValueError as error:
        raise UnreadableFile(str(error)) from None
    return msgspec.structs.replace(profile, constants={**profile.constants, **given})


class UnknownProfile(FuelrouteError):
    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no profile {name!r}: choose one of {', '.join(known)}, or keep one in the console")

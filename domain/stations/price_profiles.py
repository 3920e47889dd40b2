"""The fields of price files, and the profiles that are built in, by vendor.

Public material that shows the columns is named beside each profile. What only a vendor can show stands in the README.
"""

from collections.abc import Mapping

from domain.errors import FuelrouteError
from domain.file_profiles.profiles import Column, FileProfile, RecordField, RecordFields, plain_profile

PRICE_FIELDS = RecordFields(
    "prices",
    (
        RecordField("code", "Station code", "code", ("station_id", "Store No.", "Site", "Location ID")),
        RecordField("card_code", "Code of the fuel card", "code", ("Billing Card Station Code",)),
        RecordField("name", "Name", "text", ("Station name", "Truckstop Name", "Location Name")),
        RecordField("brand", "Brand", "text", ("Chain",)),
        RecordField("address", "Address", "text", ("Street",)),
        RecordField("city", "City", "text", ("Town",)),
        RecordField("state", "State", "text", ("State/Province", "ST")),
        RecordField("latitude", "Latitude", "number", ("Lat",)),
        RecordField("longitude", "Longitude", "number", ("Lon", "Long", "Lng")),
        RecordField("retail_price", "Retail price", "amount", ("Retail", "Price", "Diesel Retail Price")),
        RecordField("net_price", "Net price", "amount", ("Best Discounted Price", "Your Price", "Cost Plus Price")),
        RecordField("effective_at", "Effective", "moment", ("Effective Date", "Price Date", "priced_at")),
    ),
    (("code", "card_code", "city"), ("retail_price", "net_price")),
)

BUILT_IN: Mapping[str, FileProfile] = {
    one.name: one
    for one in (
        # 24 columns, A to X, in the import page of a carrier: Customer, Loves Store No., City, State, Billing Card
        # Station Code, OPIS Rack ID, Retail Price, Retail Minus Discount, Retail Minus Discounted Price, OPIS / NYMEX
        # Rack, Pumping Fee, OPIS Discounted Price, Best Discounted Price, Total Taxes and Fees, Federal Taxes, State
        # Taxes, Other Taxes, Sales Tax, Freight Fee, Discounted Type Applied, Effective Date, DEF Retail Price,
        # Latitude, Longitude. (GitHub: Conard Transportation, the page "Prices - Loves")
        FileProfile(
            "loves",
            "prices",
            {
                "code": Column(("Store No.", "Loves Store No.", "Store Number")),
                "card_code": Column(("Billing Card Station Code",)),
                "city": Column(("City",)),
                "state": Column(("State",)),
                "latitude": Column(("Latitude", "Lat")),
                "longitude": Column(("Longitude", "Lon", "Long")),
                "retail_price": Column(("Retail Price",)),
                "net_price": Column(("Best Discounted Price",)),
                "effective_at": Column(("Effective Date",)),
            },
            constants={"brand": "Love's"},
            code_set="loves",
        ),
        # No public material shows the file; names are those of its fields in words.
        FileProfile(
            "pilot",
            "prices",
            {
                "code": Column(("Site", "Site Number", "Site ID", "Store", "Store Number", "Store #", "Location ID")),
                "name": Column(("Site Name", "Location Name", "Name")),
                "address": Column(("Address", "Street Address")),
                "city": Column(("City",)),
                "state": Column(("State", "State/Province", "ST")),
                "latitude": Column(("Latitude", "Lat")),
                "longitude": Column(("Longitude", "Lon", "Long", "Lng")),
                "retail_price": Column(("Retail Price", "Retail", "Diesel Retail")),
                "net_price": Column(("Your Price", "Net Price", "Cost Plus Price", "Cost Plus", "Customer Price")),
                "effective_at": Column(("Effective Date", "Effective", "Price Date")),
            },
            constants={"brand": "Pilot Flying J"},
            code_set="pilot",
        ),
        FileProfile(
            "ta",
            "prices",
            {
                "code": Column(("Site ID", "Site", "Location", "Location Number", "Location #", "Store Number")),
                "name": Column(("Site Name", "Location Name", "Name")),
                "address": Column(("Address", "Street Address")),
                "city": Column(("City",)),
                "state": Column(("State", "ST")),
                "latitude": Column(("Latitude", "Lat")),
                "longitude": Column(("Longitude", "Lon", "Long")),
                "retail_price": Column(("Retail Price", "Retail", "Posted Price")),
                "net_price": Column(("Cost Plus Price", "Cost Plus", "Cost+", "Net Price", "Your Price")),
                "effective_at": Column(("Effective Date", "Effective", "Price Date")),
            },
            constants={"brand": "TA"},
            code_set="ta",
        ),
        # OPIS Truckstop ID, Truckstop Name, Address, City, State, Rack ID, Retail Price: an extract that many public
        # repositories have as fuel-prices-for-be-assessment.csv. The address is an exit: "I-44, EXIT 283 & US-69".
        FileProfile(
            "opis",
            "prices",
            {
                "code": Column(("OPIS Truckstop ID", "OPIS ID", "Truckstop ID")),
                "name": Column(("Truckstop Name", "Name")),
                "address": Column(("Address",)),
                "city": Column(("City",)),
                "state": Column(("State",)),
                "latitude": Column(("Latitude", "Lat")),
                "longitude": Column(("Longitude", "Lon")),
                "retail_price": Column(("Retail Price",)),
                "effective_at": Column(("Price Date", "Effective Date", "OPIS Price Date")),
            },
            code_set="opis",
        ),
        plain_profile(PRICE_FIELDS),
    )
}


class UnknownProfile(FuelrouteError):
    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no profile {name!r}: choose one of {', '.join(known)}, or keep one in the console")

"""Lists of stations, deals and taxes for people. Stations and taxes are the same for all companies."""

from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.listing import Listing


class StoredStation(NamedTuple):
    """A stored station: the fields of `StationRow`, and whether it is retired."""

    station_id: str
    name: str
    latitude: float
    longitude: float
    brand: str | None
    address: str | None
    city: str | None
    state: str | None
    parking_spaces: int | None
    showers: int | None
    hours: str | None
    retail_price: float | None
    priced_at: datetime | None
    retired_at: datetime | None
    closed_until: datetime | None
    """The moment until which it is closed for all companies."""

    @property
    def currency(self) -> str | None:
        """The currency of the stored price, in the words of files of stations."""
        return "USD" if self.retail_price is not None else None

    @property
    def unit(self) -> str | None:
        return "gallon" if self.retail_price is not None else None

    @property
    def checked_price(self) -> float | None:
        """The stored price, which has been believed, so that an export can be imported again."""
        return self.retail_price


class StoredDeal(NamedTuple):
    """A stored deal: the fields of `DealRow`, and its id, the number within the company."""

    id: int
    company_id: UUID
    station_id: str | None
    brand: str | None
    discount_per_gallon: float | None
    net_price: float | None
    valid_from: date | None
    valid_to: date | None

    @property
    def currency(self) -> str:
        """The currency of stored prices, in the words of files of deals."""
        return "USD"

    @property
    def unit(self) -> str:
        return "gallon"

    @property
    def checked_price(self) -> float | None:
        """The stored price, which has been believed, so that an export can be imported again."""
        return self.net_price if self.net_price is not None else self.discount_per_gallon


class StoredTax(NamedTuple):
    """The fields of `TaxRow`."""

    state: str
    rate_per_gallon: float
    valid_from: date
    surcharge_per_gallon: float


STATIONS = Listing(
    StoredStation,
    "(SELECT s.*, (SELECT c.closed_until FROM station_closures c WHERE c.company_id IS NULL"
    " AND c.station_id = s.station_id AND c.closed_until > now()) AS closed_until FROM stations s) AS stations",
    scope="true",
    key="station_id = %(id)s",
    order="station_id",
    searched=("station_id", "name", "brand", "address", "city", "state"),
    sorted_by=[name for name in StoredStation._fields if name not in ("retired_at", "closed_until")],
    retires=True,
)
DEALS = Listing(
    StoredDeal,
    "(SELECT coalesce(number, id) AS id, company_id, station_id, brand, discount_per_gallon, net_price, valid_from,"
    " valid_to FROM deals) AS deals",
    scope="company_id = %(company_id)s",
    key="id = %(id)s",
    order="station_id, brand, valid_from, id",
    searched=("station_id", "brand"),
    sorted_by=[name for name in StoredDeal._fields if name not in ("id", "company_id")],
    retires=False,
)
TAXES = Listing(
    StoredTax,
    "fuel_taxes",
    scope="true",
    key="state = %(state)s AND valid_from = %(valid_from)s",
    order="state, valid_from",
    searched=("state", "valid_from"),
    sorted_by=StoredTax._fields,
    retires=False,
)

"""Stations, their prices, deals and fuel taxes; price files and the sources that they come from."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Identity, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column, with_default


class Stations(SQLModel, table=True):
    __tablename__ = "stations"

    station_id: str = Field(primary_key=True)
    name: str
    brand: str | None = None
    address: str | None = None
    city: str | None = None
    state: str | None = None
    latitude: float
    longitude: float
    retail_price: float | None = None
    priced_at: datetime | None = time_column(null=True)
    retired_at: datetime | None = time_column(null=True)
    """When it was retired: no plan stops there until an import names it again."""
    parking_spaces: int | None = None
    """Places to park a truck; NULL where no file tells them."""
    showers: int | None = None
    hours: str | None = None
    """When it is open, in the words of a file; NULL where no file tells it."""


class Deals(SQLModel, table=True):
    """A negotiated price of a company at a station or at all stations of a brand."""

    __tablename__ = "deals"
    __table_args__ = (
        UniqueConstraint(
            "company_id", "station_id", "brand", "valid_from", name="deals_key", postgresql_nulls_not_distinct=True
        ),
        CheckConstraint("num_nonnulls(station_id, brand) = 1", name="deals_one_key"),
        CheckConstraint("num_nonnulls(discount_per_gallon, net_price) = 1", name="deals_one_price"),
    )

    id: int | None = Field(default=None, primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    station_id: str | None = None
    brand: str | None = None
    discount_per_gallon: float | None = None
    net_price: float | None = None
    valid_from: date | None = None
    valid_to: date | None = None
    """The last day. Both days are inclusive, in the company's time zone."""
    number: int | None = None
    """The number that people see, counted within the company; `id` counts the deals of all companies. NULL for a deal
    that an older release stored: its number is then its `id`."""


class FuelTaxes(SQLModel, table=True):
    """A state's tax on diesel from a day on. The rate is paid at the pump and credited; the surcharge is not."""

    __tablename__ = "fuel_taxes"

    state: str = Field(primary_key=True)
    valid_from: date = Field(primary_key=True)
    rate_per_gallon: float
    surcharge_per_gallon: float = with_default("0")


class PriceSets(SQLModel, table=True):
    """One import of stations, taxes or (for a company) deals. Plans priced later use its prices."""

    __tablename__ = "price_sets"
    __table_args__ = (
        Index("price_sets_reviews_due", "reviews_due_at", postgresql_where=text("reviews_due_at IS NOT NULL")),
    )

    id: int | None = Field(default=None, sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    kind: str
    company_id: UUID | None = Field(default=None, foreign_key="companies.id")
    imported_at: datetime = time_column()
    reviews_due_at: datetime | None = time_column(null=True)
    """From then on the sweep asks again for the job that requests reviews of plans; NULL once it has."""


class Quotes(SQLModel, table=True):
    """A net price from a price file: what a company pays at a station from a moment on."""

    __tablename__ = "quotes"

    company_id: UUID = Field(primary_key=True)
    station_id: str = Field(primary_key=True)
    effective_at: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    net_price: float
    profile: str
    """The profile of the file."""


class ComingPrices(SQLModel, table=True):
    """A retail price that holds from a later moment on."""

    __tablename__ = "coming_prices"

    station_id: str = Field(primary_key=True)
    effective_at: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    retail_price: float


class StationClosures(SQLModel, table=True):
    """A person's word that a station is closed until a moment. It ends by itself."""

    __tablename__ = "station_closures"
    __table_args__ = (
        Index(
            "station_closures_once",
            "company_id",
            "station_id",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: UUID = Field(primary_key=True)
    """Another one when the moment changes, so that trucks on their way are looked at once for each moment."""
    station_id: str
    company_id: UUID | None = None
    """The company whose plans leave the station out; NULL for those of all companies."""
    closed_until: datetime = time_column()
    reason: str
    closed_by: str
    closed_at: datetime = time_column()


class StationCodes(SQLModel, table=True):
    """The station that a code of a chain or a card means to a company, such as store 305 of Love's."""

    __tablename__ = "station_codes"

    company_id: UUID = Field(primary_key=True)
    code_set: str = Field(primary_key=True)
    code: str = Field(primary_key=True)
    station_id: str
    is_decided: bool = with_default("false")
    """True if a person decided it. Other codes were matched by brand and place, and are compared again each time."""


class HeldPrices(SQLModel, table=True):
    """A price of a file that waits for a person, with the reason. It is not used until a person accepts it."""

    __tablename__ = "held_prices"
    __table_args__ = (
        CheckConstraint("status IN ('held', 'accepted', 'refused')", name="status"),
        Index(
            "held_prices_once",
            "company_id",
            "kind",
            "station_id",
            "code_set",
            "code",
            "effective_at",
            "price",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        Index("held_prices_waiting", "company_id", "id", postgresql_where=text("status = 'held'")),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    kind: str
    station_id: str | None = None
    """The station; NULL where the file's station is not certain."""
    code_set: str
    code: str
    place: str
    """The station in the file's words."""
    candidates: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    """Ids of stations that may be meant."""
    price: float
    effective_at: datetime = time_column()
    profile: str
    reason: str
    held_at: datetime = time_column()
    status: str = with_default("'held'")
    decided_at: datetime | None = time_column(null=True)
    decided_by: str | None = None
    currency: str = with_default("'USD'")
    unit: str = with_default("'gallon'")
    """The amount of fuel that the price buys."""


class PriceSources(SQLModel, table=True):
    """A place from which a company's price files are fetched automatically."""

    __tablename__ = "price_sources"
    __table_args__ = (Index("price_sources_by_company", "company_id", "name", unique=True),)

    id: UUID = Field(primary_key=True)
    company_id: UUID
    name: str
    kind: str
    profile: str
    address: dict[str, Any] = json_column()
    """The folder and the pattern of names; for SFTP also host, port, user and the server's key."""
    secret: str | None = None
    """The password or private key, sealed like contacts; see `accounts/contacts.py`."""
    takes_retail: bool
    """Its files also change the retail prices of stations, which all companies share."""
    expected_hours: int
    """Hours without a file after which the source counts as late."""
    created_at: datetime = time_column()
    paused_at: datetime | None = time_column(null=True)
    looked_at: datetime | None = time_column(null=True)
    """When it was last asked for files."""
    file_at: datetime | None = time_column(null=True)
    """When its last file came."""
    fault: str | None = None
    """Why it could not be read the last time; NULL if it could."""
    seen: dict[str, Any] = json_column()
    """The state of each listed file, by name; see `SeenFile` in `stations/price_sources.py`."""
    failures: int = with_default("0")
    """Failed attempts in a row to read it; with each it is asked less often."""
    failing_since: datetime | None = time_column(null=True)
    """When the fault of the source, or of its last file, began."""


class PriceRuns(SQLModel, table=True):
    """One price file, and what happened to its rows."""

    __tablename__ = "price_runs"
    __table_args__ = (
        Index("price_runs_by_company", "company_id", "id"),
        Index("price_runs_of_source", "source_id", "file_hash"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    source_id: UUID | None = None
    """The source; NULL if a person sent the file."""
    file_name: str
    file_hash: str
    profile: str
    actor: str
    ended_at: datetime = time_column()
    created: int
    updated: int
    unchanged: int
    held: int
    refused: int
    rejected: list[dict[str, Any]] = json_column()
    """The first of the refused rows: line and message."""
    fault: str | None = None
    """Why the file as a whole could not be imported; NULL if it was."""
    modified_at: datetime | None = time_column(null=True)
    """The file's time by its source's clock; NULL if a person sent it, or the source has no times."""
    read_with: str | None = None
    """A digest of the profile at that time; NULL if a person sent the file."""


class FileProfiles(SQLModel, table=True):
    """A file profile that a company has made by mapping the columns of a file."""

    __tablename__ = "file_profiles"

    company_id: UUID = Field(primary_key=True)
    subject: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    profile: dict[str, Any] = json_column()
    changed_at: datetime = time_column()

"""Stations, their prices, deals and fuel taxes."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, UniqueConstraint
from sqlmodel import Field, SQLModel

from domain.tables.columns import time_column, with_default


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
    """Since then no plan stops there, until an import names it again."""


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
    """Both inclusive, in the company's time zone."""


class FuelTaxes(SQLModel, table=True):
    """A state's tax on diesel from a day on. The rate is paid at the pump and credited for it, the surcharge is not."""

    __tablename__ = "fuel_taxes"

    state: str = Field(primary_key=True)
    valid_from: date = Field(primary_key=True)
    rate_per_gallon: float
    surcharge_per_gallon: float = with_default("0")


class PriceSets(SQLModel, table=True):
    """One import of stations, taxes or (of a company) deals. Plans that are priced later use its prices."""

    __tablename__ = "price_sets"

    id: int | None = Field(default=None, sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    kind: str
    company_id: UUID | None = Field(default=None, foreign_key="companies.id")
    imported_at: datetime = time_column()

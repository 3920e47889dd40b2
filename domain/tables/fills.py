"""Fills: purchases of fuel as a card's file told of them, and what became of each planned fuel stop."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment
from domain.tables.columns import is_one_of, time_column


def _texts() -> Column[list[str]]:
    return Column(ARRAY(Text), nullable=False, server_default=text("'{}'"))


class Fills(SQLModel, table=True):
    """A purchase of one product by a fuel card, and the truck, station and route that it was matched to; see
    `fills`."""

    __tablename__ = "fills"
    __table_args__ = (
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
        Index("fills_key", "company_id", "environment", "key", unique=True),
        Index("fills_by_time", "company_id", "environment", text("bought_at DESC"), "id"),
        Index("fills_by_route", "route_id", postgresql_where=text("route_id IS NOT NULL")),
        Index(
            "fills_by_vehicle",
            "vehicle_id",
            "environment",
            "bought_at",
            postgresql_where=text("vehicle_id IS NOT NULL"),
        ),
        Index(
            "fills_to_review",
            "company_id",
            "environment",
            text("bought_at DESC"),
            "id",
            postgresql_where=text("review <> '{}'"),
        ),
        Index(
            "fills_flagged",
            "company_id",
            "environment",
            text("bought_at DESC"),
            "id",
            postgresql_where=text("flags <> '{}'"),
        ),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    profile: str
    """The profile of the file that it came in."""
    key: str
    """The digest of its transaction, by which a file that is sent twice is recognized."""
    transaction_number: str | None = None
    invoice_number: str | None = None
    """The number of the truck stop's receipt, where the file tells it beside or instead of the card's own number."""
    card_last_four: str | None = None
    driver_name: str | None = None
    """The person of the card, as the file writes the name; only of a row that names no unit."""
    bought_at: datetime = time_column()
    time_zone: str
    has_time: bool
    """False: the file told only the day, and noon stands for it."""
    unit_number: str | None = None
    location_name: str | None = None
    station_code: str | None = None
    city: str | None = None
    state: str | None = None
    item: str | None = None
    fuel: str
    """`tractor`, `reefer`, `def`, `other` or `unknown`."""
    gallons: float
    """Negative: it takes another one back."""
    paid_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    currency: str
    vehicle_id: UUID | None = None
    station_id: str | None = None
    route_id: UUID | None = None
    """Not a foreign key: the fill outlasts the route."""
    stop_number: int | None = None
    """The verdict on the planned fuel stop that it belongs to, by its number."""
    score: int
    """The certainty of the matches, from 0 to 100; see `fills/matching.py`."""
    miles_from_truck: float | None = None
    """Between the station and the nearest place where the truck was at that time."""
    review: list[str] = Field(sa_column=_texts())
    """The questions that a person has to decide. Empty: none."""
    flags: list[str] = Field(sa_column=_texts())
    """`tank`: more gallons than the tank holds. `far`: the truck was elsewhere."""
    counter_id: UUID | None = None
    """The fill that takes it back, or that it takes back: neither of the two counts."""
    twin_id: UUID | None = None
    """The fill that it may be the same purchase as, while a person has not decided."""
    file_id: UUID | None = None
    """The reading of a file that stored it: rows of one file are never the same purchase."""
    decided_by: str | None = None
    """The person who confirmed or changed the matches; rules leave them as they are since then."""
    decided_at: datetime | None = time_column(null=True)
    created_at: datetime = time_column(now=True)


class FillTellings(SQLModel, table=True):
    """The figures that a file told of a fill under another key, or before the card corrected them. So a file that comes
    again is recognized by each of its rows; see `fills/repeated.py`."""

    __tablename__ = "fill_tellings"
    __table_args__ = (Index("fill_tellings_by_fill", "fill_id"),)

    company_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    gallons: float = Field(primary_key=True)
    paid_cents: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    fill_id: UUID
    is_replaced: bool
    """Figures that the card corrected; False: another report of the figures that count."""
    is_taken_back: bool = Field(sa_column=Column(Boolean, server_default=text("false"), nullable=False))
    """A reversal took these figures back, not those of the correction."""


class CardAssignments(SQLModel, table=True):
    """A person's word on whose card it is, from a day on: of a truck, of a driver, or of nobody any more; see
    `fills/cards.py`."""

    __tablename__ = "card_assignments"

    company_id: UUID = Field(primary_key=True)
    card_last_four: str = Field(primary_key=True)
    driver_name: str = Field(primary_key=True)
    """The name that the file writes beside the card; empty: it holds whatever name stands there."""
    first_day: date = Field(primary_key=True)
    vehicle_id: UUID | None = None
    driver_id: UUID | None = None
    assigned_by: str
    assigned_at: datetime = time_column()


class StopVerdicts(SQLModel, table=True):
    """The fate of a planned fuel stop of a route with fills, or a purchase at a station outside of its plan; see
    `fills/verdicts.py`."""

    __tablename__ = "stop_verdicts"
    __table_args__ = (Index("stop_verdicts_by_time", "company_id", "environment", "planned_at"),)

    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    number: int = Field(primary_key=True)
    """From 1: planned stops first, then purchases elsewhere."""
    company_id: UUID
    environment: str
    planned_at: datetime = time_column()
    """When the plan was made that the driver has: the span that it counts in, as in `savings`."""
    vehicle_id: UUID
    driver_id: UUID
    verdict: str
    """`followed`, `partly`, `missed` or `elsewhere`."""
    place: str
    planned_gallons: float
    planned_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    bought_gallons: float
    paid_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    price_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    gallons_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    place_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    """The three causes add up to what was paid less what was planned."""

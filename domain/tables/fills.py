"""Fills: purchases of fuel as a card's file told of them, and what became of each planned fuel stop."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Text, text
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
    card_last_four: str | None = None
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
    decided_by: str | None = None
    """The person who confirmed or changed the matches; rules leave them as they are since then."""
    decided_at: datetime | None = time_column(null=True)
    created_at: datetime = time_column(now=True)


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

"""Fills: purchases of fuel from a card's file, and the verdict on each planned fuel stop."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment
from domain.tables.columns import is_one_of, time_column, with_default


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
    """The profile of the file that held it."""
    key: str
    """The digest of its transaction, by which a file that comes twice is recognized."""
    transaction_number: str | None = None
    invoice_number: str | None = None
    """The number on the truck stop's receipt, where the file has it beside or instead of the card's own number."""
    card_last_four: str | None = None
    driver_name: str | None = None
    """The card's driver, as the file writes the name; only for a row that names no unit."""
    bought_at: datetime = time_column()
    time_zone: str
    has_time: bool
    """False if the file has only the day; the time is then noon."""
    has_zone: bool = with_default("false")
    """True if the file names the zone of the time, so that it stays this moment wherever the station is."""
    unit_number: str | None = None
    location_name: str | None = None
    station_code: str | None = None
    city: str | None = None
    state: str | None = None
    item: str | None = None
    fuel: str
    """`tractor`, `reefer`, `def`, `other` or `unknown`."""
    gallons: float
    """Gallons; negative for a reversal."""
    paid_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    currency: str
    vehicle_id: UUID | None = None
    station_id: str | None = None
    route_id: UUID | None = None
    """The route. There is no foreign key, because the fill outlasts the route."""
    stop_number: int | None = None
    """The number of the verdict on its planned fuel stop."""
    score: int
    """The certainty of the matches, from 0 to 100; see `fills/matching.py`."""
    miles_from_truck: float | None = None
    """Miles from the station to the nearest place of the truck at that time."""
    review: list[str] = Field(sa_column=_texts())
    """Questions that a person has to answer; empty if there are none."""
    flags: list[str] = Field(sa_column=_texts())
    """`tank`: more gallons than the tank holds. `far`: the truck was elsewhere."""
    counter_id: UUID | None = None
    """The fill that reverses this one, or that this one reverses. Neither of the two counts."""
    twin_id: UUID | None = None
    """The fill that may be the same purchase, until a person has decided."""
    file_id: UUID | None = None
    """The reading of the file that stored it. Two rows of one file are never the same purchase."""
    decided_by: str | None = None
    """The person who confirmed or changed the matches; rules then leave them alone."""
    decided_at: datetime | None = time_column(null=True)
    created_at: datetime = time_column(now=True)


class FillTellings(SQLModel, table=True):
    """Figures that a file had for a fill under another key, or before the card corrected them. By them a file that
    comes again is recognized in each of its rows; see `fills/repeated.py`."""

    __tablename__ = "fill_tellings"
    __table_args__ = (Index("fill_tellings_by_fill", "fill_id"),)

    company_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    gallons: float = Field(primary_key=True)
    paid_cents: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    fill_id: UUID
    is_replaced: bool
    """True for figures that the card corrected; False for another report of the figures that count."""
    is_taken_back: bool = Field(sa_column=Column(Boolean, server_default=text("false"), nullable=False))
    """True if a reversal took back these figures and not those of the correction."""


class CardAssignments(SQLModel, table=True):
    """A person's decision whose card it is from a day on: a truck's, a driver's, or nobody's any more; see
    `fills/cards.py`."""

    __tablename__ = "card_assignments"

    company_id: UUID = Field(primary_key=True)
    card_last_four: str = Field(primary_key=True)
    driver_name: str = Field(primary_key=True)
    """The name that the file writes beside the card; empty if the decision holds for any name."""
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
    """Counts from 1: planned stops first, then purchases elsewhere."""
    company_id: UUID
    environment: str
    planned_at: datetime = time_column()
    """When the driver's plan was made: the time by which reports place it, as in `savings`."""
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

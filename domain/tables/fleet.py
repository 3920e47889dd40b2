"""Vehicles and drivers, mappings and spelling rules: the records that names in the TMS mean."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, Index, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import time_column


class Vehicles(SQLModel, table=True):
    __tablename__ = "vehicles"
    __table_args__ = (
        Index(
            "vehicles_unit_number",
            "company_id",
            "unit_number",
            unique=True,
            postgresql_where=text("retired_at IS NULL AND unit_number IS NOT NULL"),
        ),
        # Too wide for lookups by unit number: without statistics PostgreSQL takes any index of the company's rows.
        Index("vehicles_vin", "company_id", "vin", postgresql_where=text("vin IS NOT NULL")),
        # For people's lists. It is not partial, so that no lookup by VIN is led to it, as with drivers_external_id.
        Index("vehicles_in_order", "company_id", "unit_number", "id"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    unit_number: str | None = None
    vin: str | None = None
    license_plate: str | None = None
    make: str | None = None
    model: str | None = None
    year: str | None = None
    fuel_tank_capacity_gallons: float | None = None
    mpg: float | None = None
    height_feet: float | None = None
    width_feet: float | None = None
    length_feet: float | None = None
    weight_pounds: float | None = None
    axle_weight_pounds: float | None = None
    axle_count: int | None = None
    hazmat: str | None = None
    created_at: datetime = time_column(now=True)
    retired_at: datetime | None = time_column(null=True)
    """When it was retired: new routes no longer find it; its own routes still show it."""


class Drivers(SQLModel, table=True):
    __tablename__ = "drivers"
    __table_args__ = (
        Index("drivers_name", "company_id", "name", "id"),
        Index(
            "drivers_external_id",
            "company_id",
            "external_id",
            unique=True,
            # Too wide for lookups by name: without statistics PostgreSQL expects few rows to be in service.
            postgresql_where=text("retired_at IS NULL AND external_id IS NOT NULL"),
        ),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    name: str | None = None
    display_name: str | None = None
    external_id: str | None = None
    contact: str | None = None
    """An Apprise URL, sealed where a key is set; see `contacts`."""
    language: str | None = None
    """The language that the driver reads, such as `es` or `fr-CA`; see `languages.tags`."""
    created_at: datetime = time_column(now=True)
    retired_at: datetime | None = time_column(null=True)
    """When the driver was retired: new routes no longer find the driver. An erased driver has nothing else left."""


class Mappings(SQLModel, table=True):
    """A dispatcher's decision in the matching screens: this value means that vehicle or driver."""

    __tablename__ = "mappings"

    company_id: UUID = Field(foreign_key="companies.id", primary_key=True)
    kind: str = Field(primary_key=True)
    value: str = Field(primary_key=True)
    target_id: UUID
    created_at: datetime = time_column(now=True)


class FormerUnits(SQLModel, table=True):
    """A unit number that a vehicle had until some moment, by itself or through a mapping: earlier purchases belong to
    it. Triggers on `vehicles` and `mappings` write it."""

    __tablename__ = "former_units"

    company_id: UUID = Field(primary_key=True)
    unit_number: str = Field(primary_key=True)
    until: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    vehicle_id: UUID = Field(primary_key=True)
    is_mapping: bool = Field(primary_key=True)


class SpellingRules(SQLModel, table=True):
    """The letters that a company's TMS writes around unit numbers, as a person accepted them: `TRK 4101` is 4101. The
    function `units_by_rule` applies the rules."""

    __tablename__ = "spelling_rules"

    company_id: UUID = Field(foreign_key="companies.id", primary_key=True)
    written_before: str = Field(primary_key=True)
    written_after: str = Field(primary_key=True)
    """The letters after the number. They may be empty, like the letters before it."""
    created_at: datetime = time_column(now=True)


class FormerNames(SQLModel, table=True):
    """A name that a driver had before, in the fleet or through a mapping. Only an erasure reads it."""

    __tablename__ = "former_names"

    company_id: UUID = Field(foreign_key="companies.id", primary_key=True)
    driver_id: UUID = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    value: str = Field(primary_key=True)

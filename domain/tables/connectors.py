"""Connectors to vendors of telematics, and the vehicles that each vendor names."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, Index
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment
from domain.tables.columns import is_one_of, json_column, time_column, with_default


class Connectors(SQLModel, table=True):
    """A vendor's account of a company, whose trucks' positions come into one environment."""

    __tablename__ = "connectors"
    __table_args__ = (
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
        Index("connectors_by_company", "company_id", "environment"),
        # Each poll changes its row. The room left beside it keeps the index entries as they are.
        {"postgresql_with": {"fillfactor": 50}},
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    """The company. There is no foreign key: a migration that locks companies would stand in the way of requests.
    Connectors are added under the lock of their company."""
    environment: str
    kind: str
    name: str
    """The name that tells several accounts at one vendor apart."""
    url: str
    credentials: str
    """A JSON object of texts, sealed like contacts; see `accounts/contacts.py`."""
    asks: bool = with_default("true")
    """False if the vendor only sends positions, so that no process leases the connector."""
    created_at: datetime = time_column(now=True)
    paused_at: datetime | None = time_column(null=True)
    cursor: str | None = None
    """The vendor's place after the last page that is stored; NULL if the next poll begins with the newest positions."""
    lease_number: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """Counts up with each lease. A process whose lease has another number can no longer store anything."""
    leased_by: str | None = None
    """The process that holds the lease, for people to read."""
    leased_until: datetime | None = time_column(null=True)
    due_at: datetime | None = time_column(null=True)
    """The earliest time of the next poll. A vendor's Retry-After outlives the process that received it."""
    answered_at: datetime | None = time_column(null=True)
    """When the vendor last answered, or sent, anything readable."""
    newest_at: datetime | None = time_column(null=True)
    """`recorded_at` of the newest fix that was stored."""
    failures: int = with_default("0")
    """Failed polls in a row."""
    failing_since: datetime | None = time_column(null=True)
    last_error: str | None = None
    what_to_do: str | None = None
    fixes: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """Fixes stored."""
    left_out: dict[str, int] = json_column()
    """Fixes and readings left out, counted by reason; see `connectors/fixes.py`."""
    cursor_doubted: bool = with_default("false")
    """True after the credentials changed, until the cursor brings something: it may be of another source."""
    remark: str | None = None
    """The last thing that people should know and that is no fault, such as that the vendor's ids began again."""
    remarked_at: datetime | None = time_column(null=True)


class ConnectorVehicles(SQLModel, table=True):
    """A vehicle as the vendor names it, and the vehicle of ours that it is."""

    __tablename__ = "connector_vehicles"
    __table_args__ = (Index("connector_vehicles_by_company", "company_id"),)

    connector_id: UUID = Field(primary_key=True)
    vehicle_key: str = Field(primary_key=True)
    """The vendor's id of the vehicle."""
    company_id: UUID
    name: str | None = None
    vin: str | None = None
    external_ids: str | None = None
    """One external id a line; a line with ~ in front only contradicts a match, see `connectors/vendor_vehicles.py`."""
    vehicle_id: UUID | None = None
    """Our vehicle; NULL if none fits, and a person is asked."""
    matched_by: str | None = None
    """`person`, `external_id`, `vin` or `unit_number`."""
    seen_at: datetime = time_column()
    """When it was last compared with our vehicles; this does not happen at each fix."""
    doubt: str | None = None
    """Why it has no match, or what speaks against its match, for people to read."""
    fuel_percent: float | None = None
    """The newest fuel level while it waits for a position; NULL once a position has it."""
    fuel_measured_at: datetime | None = time_column(null=True)
    """When the newest fuel level was measured."""

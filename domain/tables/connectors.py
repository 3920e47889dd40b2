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
        # each poll changes its row: with room beside it, its index entries stay as they are
        {"postgresql_with": {"fillfactor": 50}},
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    """No foreign key: a migration that locks companies would stand in the way of requests. Connectors are added under
    the lock of their company."""
    environment: str
    kind: str
    name: str
    """A company may have several accounts at one vendor."""
    url: str
    credentials: str
    """A JSON object of texts, sealed like contacts; see `accounts/contacts.py`."""
    asks: bool = with_default("true")
    """False: its vendor only sends; nobody leases it."""
    created_at: datetime = time_column(now=True)
    paused_at: datetime | None = time_column(null=True)
    cursor: str | None = None
    """The vendor's place after the last page that is stored. NULL: the next poll begins with the newest positions."""
    lease_number: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """Counts up with each lease. A process whose lease has another number stores nothing any more."""
    leased_by: str | None = None
    """The process that holds the lease, as people read it."""
    leased_until: datetime | None = time_column(null=True)
    due_at: datetime | None = time_column(null=True)
    """The next poll is not before; a vendor's Retry-After outlives the process that was told it."""
    answered_at: datetime | None = time_column(null=True)
    """When the vendor last answered, or sent, something that could be read."""
    newest_at: datetime | None = time_column(null=True)
    """`recorded_at` of the newest fix that was taken."""
    failures: int = with_default("0")
    """Failed polls in a row."""
    failing_since: datetime | None = time_column(null=True)
    last_error: str | None = None
    what_to_do: str | None = None
    fixes: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """The number of fixes stored."""
    left_out: dict[str, int] = json_column()
    """The numbers of fixes and readings that were left out, by reason; see `connectors/fixes.py`."""
    cursor_doubted: bool = with_default("false")
    """True after its credentials changed: the cursor may be of another source, until it brings something."""
    remark: str | None = None
    """The last thing that people should know and that is no fault, such as that the vendor's ids began anew."""
    remarked_at: datetime | None = time_column(null=True)


class ConnectorVehicles(SQLModel, table=True):
    """A vehicle that a connector's vendor names, and the vehicle of ours that it is."""

    __tablename__ = "connector_vehicles"
    __table_args__ = (Index("connector_vehicles_by_company", "company_id"),)

    connector_id: UUID = Field(primary_key=True)
    vehicle_key: str = Field(primary_key=True)
    """The vendor's id."""
    company_id: UUID
    name: str | None = None
    vin: str | None = None
    external_ids: str | None = None
    """A line for each; one that begins with ~ only contradicts, see `connectors/vendor_vehicles.py`."""
    vehicle_id: UUID | None = None
    """NULL: none of our vehicles fits; a person is asked."""
    matched_by: str | None = None
    """`person`, `external_id`, `vin` or `unit_number`."""
    seen_at: datetime = time_column()
    """When it was last compared with our vehicles: not at each fix."""
    doubt: str | None = None
    """Why it has no match, or what speaks against the one that it has, as people read it."""
    fuel_percent: float | None = None
    """The newest fuel level, while it waits for a position. NULL: a position has it."""
    fuel_measured_at: datetime | None = time_column(null=True)
    """When the newest fuel level was measured."""

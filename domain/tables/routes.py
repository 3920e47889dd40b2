"""Routes, their visits and events, and how many routes there are."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Index, text
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment, PendingReason, RouteStatus
from domain.magic_values import DRAFT_TO_DRIVE
from domain.tables.columns import is_one_of, json_column, time_column, with_default


def _waiting_for(kind: str, column: str, reason: PendingReason) -> Index:
    """An index of held routes by the reference that they wait for."""
    where = f"status = 'pending_mapping' AND pending_reason = '{reason}' AND {column} IS NOT NULL"
    return Index(f"routes_waiting_for_{kind}", "company_id", column, "id", postgresql_where=text(where))


class Routes(SQLModel, table=True):
    """A dispatch route: its pushed input, its status, and its result."""

    __tablename__ = "routes"
    __table_args__ = (
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
        CheckConstraint(is_one_of("status", RouteStatus), name="status"),
        # An externalId names one route, until that route is canceled.
        Index(
            "routes_external_id",
            "company_id",
            "environment",
            "external_id",
            unique=True,
            postgresql_where=text("status <> 'canceled'"),
        ),
        Index(
            "routes_canceled",
            "company_id",
            "environment",
            "external_id",
            "created_at",
            postgresql_where=text("status = 'canceled'"),
        ),
        # The indexes of lists.
        Index("routes_by_start", "company_id", "environment", text("scheduled_start DESC"), "id"),
        Index("routes_by_status", "company_id", "environment", "status", text("scheduled_start DESC"), "id"),
        Index(
            "routes_by_vehicle",
            "vehicle_id",
            "company_id",
            "environment",
            text("scheduled_start DESC"),
            "id",
            postgresql_where=text("vehicle_id IS NOT NULL"),
        ),
        Index("routes_by_driver", "driver_id", postgresql_where=text("driver_id IS NOT NULL")),
        Index(
            "routes_superseding",
            "company_id",
            "environment",
            "reference",
            postgresql_where=text(
                "reference <> '' AND status IN ('pending','pending_mapping','pending_window','draft','planned')"
            ),
        ),
        Index("routes_by_change", "company_id", "environment", "changed_in", "id"),
        # indexes of the workers
        Index(
            "routes_to_start",
            "vehicle_id",
            "environment",
            "scheduled_start",
            "id",
            postgresql_where=text("status = 'draft' AND arrived_at IS NULL"),
        ),
        Index(
            "routes_started",
            "vehicle_id",
            "environment",
            postgresql_where=text("status IN ('planned','active') OR status = 'draft' AND arrived_at IS NOT NULL"),
        ),
        Index(
            "routes_started_before",
            "former_vehicle_id",
            "environment",
            postgresql_where=text("status = 'pending' AND arrived_at IS NOT NULL"),
        ),
        Index(
            "routes_to_drive",
            "vehicle_id",
            "scheduled_start",
            "id",
            postgresql_where=text(DRAFT_TO_DRIVE),
        ),
        Index("routes_pending", "retry_at", postgresql_where=text("status = 'pending'")),
        Index(
            "routes_held_by_start",
            "status",
            "scheduled_start",
            postgresql_where=text("status IN ('pending_mapping','pending_window')"),
        ),
        _waiting_for("unit_number", "vehicle_unit_number", PendingReason.VEHICLE_UNMAPPED),
        _waiting_for("vin", "vehicle_vin", PendingReason.VEHICLE_UNMAPPED),
        _waiting_for("driver_name", "driver_name", PendingReason.DRIVER_UNMAPPED),
        _waiting_for("driver_external_id", "driver_external_id", PendingReason.DRIVER_UNMAPPED),
        Index(
            "routes_plan_due",
            "retry_at",
            postgresql_where=text("status = 'draft' AND arrived_at IS NOT NULL"),
        ),
        Index("routes_review_due", "review_at", postgresql_where=text("review_at IS NOT NULL")),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    environment: str
    external_id: str
    reference: str | None = None
    vehicle_unit_number: str | None = None
    vehicle_vin: str | None = None
    driver_name: str | None = None
    driver_external_id: str | None = None
    scheduled_start: datetime = time_column()
    stops: list[dict[str, Any]] = json_column()
    """The stops as pushed: name, address, latitude, longitude, arrivalWindow."""
    revision: int = with_default("1")
    """Raised with every change of the input; a plan belongs to one revision."""

    status: str
    pending_reason: str | None = None
    pending_detail: str | None = None
    closed_reason: str | None = None
    """Why it is `canceled` or `error`."""
    attempts: int = with_default("0")
    """Failed attempts in a row at the step that the route waits for: import, plan or review."""
    retry_at: datetime | None = time_column(null=True)
    """When the step that the route waits for (import or plan) is due again."""

    vehicle_id: UUID | None = None
    driver_id: UUID | None = None
    """The driver. Like the vehicle, it is no foreign key: the checks would be an eighth of an import's cost. Vehicles
    and drivers are deleted only with their company, after its routes; see `housekeeping.erasure`."""
    former_vehicle_id: UUID | None = None
    """The vehicle to which it was matched before its import last started over. The vehicle's fixes are processed again
    once the import has decided."""
    imported_at: datetime | None = time_column(null=True)
    arrived_at: datetime | None = time_column(null=True)
    """First arrival at any stop, after which a plan is due."""
    completed_at: datetime | None = time_column(null=True)
    plan_id: UUID | None = None
    """The current plan; for a route in `error`, the attempt that explains why there is none."""
    review_at: datetime | None = time_column(null=True)
    """When the review of its plan is due; see `routes/plans/reviews.py`."""
    review_requests: int = with_default("0")
    """Reviews asked for. A review that ends leaves `review_at` if another was asked for meanwhile."""
    review_cause: str | None = None
    """`dispatcher` if a dispatcher asked for the review that is due; NULL if fuel or prices have changed."""
    correction_id: UUID | None = None
    """The plan that will replace the driver's. It becomes the current one when its message is out."""
    corrected_at: datetime | None = time_column(null=True)
    """When a plan that had been sent was last replaced."""
    replan: dict[str, Any] | None = json_column(null=True)
    """Why its plan is to be made again on the way; NULL if it is not. See `routes/plans/replans.py`."""
    fuel_visits: list[dict[str, Any]] | None = json_column(null=True)
    """The fuel stops of the plan that the driver has, in driving order: where they are, and when the truck arrived and
    departed. NULL before he has a plan. See `routes/visits.py`."""
    distance_miles: float | None = None
    created_at: datetime = time_column(now=True)
    updated_at: datetime = time_column(now=True)
    request_id: str | None = None
    """The request that brought the present input, see `telemetry/tracing.py`; NULL if it did not come by the API."""
    traceparent: str | None = None
    """The trace context of that request."""
    changed_in: int = with_default("(pg_current_xact_id()::text::int8)", sa_type=BigInteger)
    """The transaction that last changed it; a trigger keeps it so. See `routes/reading/changes.py`."""


class LastWrites(SQLModel, table=True):
    """The last write by a tenant's callers of the API; see `routes/reading/last_writes.py`. The table is not logged."""

    __tablename__ = "last_writes"
    __table_args__ = (
        # Each write changes its row. The room left beside it keeps the index entry as it is.
        {"prefixes": ["UNLOGGED"], "postgresql_with": {"fillfactor": 50}},
    )

    company_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    lsn: int = Field(sa_column=Column(BigInteger, nullable=False))
    """The place in PostgreSQL's write-ahead log up to which a replica must have replayed."""


class ChangeMarks(SQLModel, table=True):
    """The oldest transaction that was running at some time; see `routes/reading/changes.py`."""

    __tablename__ = "change_marks"

    marked_at: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    oldest_transaction: int = Field(sa_column=Column(BigInteger, nullable=False))


class RouteCounts(SQLModel, table=True):
    """The number of a tenant's routes by status and starting day, up to the `RouteCountDeltas` that were folded into
    it; see `counts`."""

    __tablename__ = "route_counts"

    company_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    status: str = Field(primary_key=True)
    day: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    """The day's first moment in UTC."""
    routes: int


class RouteCountDeltas(SQLModel, table=True):
    """The change of a count by one statement. Triggers on `routes` write it, in the transaction that changes the
    routes. It has no key."""

    __tablename__ = "route_count_deltas"
    __table_args__ = (Index("route_count_deltas_by_tenant", "company_id", "environment"),)
    __mapper_args__: ClassVar[dict[str, Any]] = {"primary_key": ["company_id", "environment", "status", "day"]}

    company_id: UUID
    environment: str
    status: str
    day: datetime = time_column()
    routes: int


class Visits(SQLModel, table=True):
    """The truck at one stop of a route, with the fixes and the rule that decided it."""

    __tablename__ = "visits"
    __table_args__ = (
        Index("visits_with_evidence", "route_id", postgresql_where=text("arrival_evidence IS NOT NULL")),
        Index("visits_by_vehicle", "vehicle_id", "environment", "stored_at"),
        Index("visits_by_arrival", "arrived_at"),
        Index("visits_to_judge", "arrived_at", postgresql_where=text("is_to_judge")),
    )

    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    stop: int = Field(primary_key=True)
    """Position in `routes.stops`, from 0."""
    vehicle_id: UUID | None = None
    """The vehicle that made the visit; NULL where an earlier release stored it for a route without one."""
    arrived_at: datetime = time_column()
    departed_at: datetime | None = time_column(null=True)
    arrival_evidence: dict[str, Any] | None = json_column(null=True)
    """The rule and the fixes, or the dispatcher and the reason; see `routes/visits.py`. NULL once deleted by
    retention."""
    departure_evidence: dict[str, Any] | None = json_column(null=True)
    stored_at: datetime = time_column(now=True)
    """When the truck last moved the route on, by our clock: equal for all visits of a route."""
    is_to_judge: bool = Field(default=True, sa_column_kwargs={"server_default": text("true")})
    """False once the truck was found detained here, or gone before the free time ended; see `detention/detained.py`."""


class RouteEvents(SQLModel, table=True):
    """A request of a dispatcher, or a failure, that no other table keeps; see `routes/events.py`."""

    __tablename__ = "route_events"
    __table_args__ = (Index("route_events_with_detail", "route_id", postgresql_where=text("detail IS NOT NULL")),)

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", index=True)
    at: datetime = time_column()
    kind: str
    actor: str | None = None
    """The e-mail address of the person who asked; NULL for the service itself."""
    detail: str | None = None
    """The reason or the error; NULL once deleted by retention."""

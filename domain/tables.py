"""The tables, as SQLModel classes: the one description of the schema that the migrations are checked against.

Statements elsewhere are plain SQL through psycopg; each stands in the module that owns the table's rules.

Every table of a company's data carries its `company_id`, and its `environment` where there are two of it, for row-level
security and for spreading companies over several databases. An id alone names one row of all companies, so what is
looked up by an id has no company in its key: the entries of the largest indexes would grow by a third.
"""

from datetime import date, datetime
from enum import StrEnum
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    LargeBinary,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment, MapLink, Objective, PendingReason, Role, RouteStatus


def _time(*, now: bool = False, null: bool = False) -> Any:
    return Field(
        sa_column=Column(
            DateTime(timezone=True), nullable=null, server_default=text("clock_timestamp()") if now else None
        )
    )


def _json(*, null: bool = False) -> Any:
    return Field(sa_column=Column(JSONB, nullable=null))


def _default(sql: str, **more: Any) -> Any:
    return Field(sa_column_kwargs={"server_default": text(sql)}, **more)


def _one_of(column: str, values: type[StrEnum]) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


def _waiting_for(kind: str, column: str, reason: PendingReason) -> Index:
    """Held routes by the name of what they wait for."""
    where = f"status = 'pending_mapping' AND pending_reason = '{reason}' AND {column} IS NOT NULL"
    return Index(f"routes_waiting_for_{kind}", "company_id", column, "id", postgresql_where=text(where))


class Companies(SQLModel, table=True):
    """A tenant, with its import and planning policy."""

    __tablename__ = "companies"
    __table_args__ = (
        CheckConstraint(_one_of("objective", Objective), name="objective"),
        CheckConstraint(_one_of("map_link", MapLink), name="map_link"),
    )

    id: UUID = Field(primary_key=True)
    name: str
    time_zone: str = _default("'UTC'")
    import_window_days: float = _default("7")
    superseding: bool = _default("false")
    reserve_percent: float = _default("15")
    end_fuel_percent: float = _default("25")
    assumed_fuel_percent: float = _default("50")
    min_purchase_gallons: float = _default("30")
    stop_cost: float = _default("20")
    max_detour_miles: float = _default("5")
    max_stops: int | None = None
    objective: str = _default("'pump'")
    leftover_value_per_gallon: float = _default("0")
    fuel_margin_percent: float = _default("0")
    map_link: str = _default("'google'")
    replan_en_route: bool = _default("false")
    message_url: str | None = None
    """Sealed like a driver's contact; see `contacts`."""
    created_at: datetime = _time(now=True)
    retired_at: datetime | None = _time(null=True)
    """Since then its keys are refused and nothing of it moves."""


class ApiKeys(SQLModel, table=True):
    """One API key. The key itself is never stored: only its visible prefix and its hash."""

    __tablename__ = "api_keys"
    __table_args__ = (CheckConstraint(_one_of("environment", Environment), name="environment"),)

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id", index=True)
    name: str
    environment: str
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    prefix: str = Field(index=True)
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = _time(now=True)
    expires_at: datetime | None = _time(null=True)
    revoked_at: datetime | None = _time(null=True)
    last_used_at: datetime | None = _time(null=True)
    """To the minute: the ingress writes it from its memory."""


class Users(SQLModel, table=True):
    """A person who signs in to the console: one of a company, or an operator, who sees all of them."""

    __tablename__ = "users"
    __table_args__ = (
        UniqueConstraint("email", name="users_email"),
        CheckConstraint(_one_of("role", Role), name="role"),
        CheckConstraint("(role = 'operator') = (company_id IS NULL)", name="users_company"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID | None = Field(default=None, foreign_key="companies.id", index=True)
    email: str
    """In lower case."""
    role: str
    password_hash: str | None = None
    """Argon2id; NULL until a password was set through a link."""
    totp_secret: str | None = None
    """Sealed like contacts; NULL: no one-time code is asked for."""
    totp_used_step: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default=text("0")))
    """The time step of the last accepted code: none is accepted twice."""
    created_at: datetime = _time(now=True)


class Sessions(SQLModel, table=True):
    """A browser that is signed in. The token in its cookie is not stored, only the token's hash."""

    __tablename__ = "sessions"

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: UUID = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    company_id: UUID | None = Field(default=None, foreign_key="companies.id", ondelete="SET NULL")
    """The one that an operator has chosen."""
    address: str
    created_at: datetime = _time()
    seen_at: datetime = _time()


class Devices(SQLModel, table=True):
    """A browser in which a user has signed in before: what strangers attempt elsewhere does not slow it down."""

    __tablename__ = "devices"

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: UUID = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    network: str | None = None
    """The network of its last sign-in: an address of IPv4, or a /64 of IPv6. NULL: not known."""
    created_at: datetime = _time()


class PasswordLinks(SQLModel, table=True):
    """A one-time link with which a user sets a password."""

    __tablename__ = "password_links"

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: UUID = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    created_at: datetime = _time()


class SignInAttempts(SQLModel, table=True):
    """How often somebody has tried to sign in lately without success."""

    __tablename__ = "sign_in_attempts"

    subject: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    """A hash of who tried, or at what: a device, a network, an account, an account from a network."""
    attempts: float
    """At the time of the last one. They are forgotten bit by bit; see `attempts`."""
    last_at: datetime = _time()
    forgotten_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False, index=True))
    """When nothing of them counts any more."""


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
        # of no use to who asks by unit number: without statistics PostgreSQL takes any index of the company's rows
        Index("vehicles_vin", "company_id", "vin", postgresql_where=text("vin IS NOT NULL")),
        # for people's lists; not partial, so that nobody who asks by VIN is led to it, as with drivers_external_id
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
    created_at: datetime = _time(now=True)
    retired_at: datetime | None = _time(null=True)
    """Since then nothing leads to it any more; its routes go on showing it."""


class Drivers(SQLModel, table=True):
    __tablename__ = "drivers"
    __table_args__ = (
        Index("drivers_name", "company_id", "name", "id"),
        Index(
            "drivers_external_id",
            "company_id",
            "external_id",
            unique=True,
            # of no use to who asks by name: without statistics PostgreSQL takes few rows to be in service
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
    created_at: datetime = _time(now=True)
    retired_at: datetime | None = _time(null=True)
    """Since then nothing leads to the driver any more; one that was erased has nothing else left."""


class Mappings(SQLModel, table=True):
    """What a dispatcher decided in the matching screens: this value means that vehicle or driver."""

    __tablename__ = "mappings"

    company_id: UUID = Field(foreign_key="companies.id", primary_key=True)
    kind: str = Field(primary_key=True)
    value: str = Field(primary_key=True)
    target_id: UUID
    created_at: datetime = _time(now=True)


class FormerNames(SQLModel, table=True):
    """A name that a driver had before, in the fleet or through a mapping. Only an erasure reads it."""

    __tablename__ = "former_names"

    company_id: UUID = Field(foreign_key="companies.id", primary_key=True)
    driver_id: UUID = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    value: str = Field(primary_key=True)


class Routes(SQLModel, table=True):
    """A dispatch route: what was pushed, where it stands, and what became of it."""

    __tablename__ = "routes"
    __table_args__ = (
        CheckConstraint(_one_of("environment", Environment), name="environment"),
        CheckConstraint(_one_of("status", RouteStatus), name="status"),
        # an externalId names one route until that is canceled
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
        # what lists are read from
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
        # what the workers look for
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
    scheduled_start: datetime = _time()
    stops: list[dict[str, Any]] = _json()
    """As pushed: name, address, latitude, longitude, arrivalWindow."""
    revision: int = _default("1")
    """Raised with every change of the input; a plan belongs to one revision."""

    status: str
    pending_reason: str | None = None
    pending_detail: str | None = None
    closed_reason: str | None = None
    """Why it is `canceled` or `error`."""
    attempts: int = _default("0")
    """Failed ones in a row, at the step it waits for: import, plan or review."""
    retry_at: datetime | None = _time(null=True)
    """When the step it waits for (import or plan) is due again."""

    vehicle_id: UUID | None = None
    driver_id: UUID | None = None
    """Neither is a foreign key, whose checks would be an eighth of what an import costs. Vehicles and drivers are
    deleted only with their company, after its routes; see `housekeeping.erasure`."""
    former_vehicle_id: UUID | None = None
    """The vehicle that it was matched to before its import last started over: it is looked at again once the import has
    decided."""
    imported_at: datetime | None = _time(null=True)
    arrived_at: datetime | None = _time(null=True)
    """First arrival at any stop: from here on a plan is due."""
    completed_at: datetime | None = _time(null=True)
    plan_id: UUID | None = None
    """The current plan; of a route in `error`, the attempt that explains why there is none."""
    review_at: datetime | None = _time(null=True)
    """When the review of its plan is due; see `routes/plans/reviews.py`."""
    review_requests: int = _default("0")
    """How often a review was asked for. A review that ends leaves `review_at` if another was asked for meanwhile."""
    review_cause: str | None = None
    """`dispatcher`: somebody asked for the review that is due. NULL: fuel or prices have changed."""
    correction_id: UUID | None = None
    """The plan that replaces the one that the driver has. It becomes the current one when its message is out."""
    corrected_at: datetime | None = _time(null=True)
    """When a plan that had been sent was last replaced."""
    replan: dict[str, Any] | None = _json(null=True)
    """Why its plan is to be made anew on the way; see `routes/plans/replans.py`. NULL: it is not."""
    distance_miles: float | None = None
    created_at: datetime = _time(now=True)
    updated_at: datetime = _time(now=True)


class RouteCounts(SQLModel, table=True):
    """How many routes of a tenant have a status and start on a day, as far as `RouteCountDelta` was folded into it; see
    `counts`."""

    __tablename__ = "route_counts"

    company_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    status: str = Field(primary_key=True)
    day: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    """Its first moment in UTC."""
    routes: int


class RouteCountDeltas(SQLModel, table=True):
    """How many routes more, or fewer, a statement left there. Triggers on `routes` write it, in the transaction that
    changes the routes. It has no key."""

    __tablename__ = "route_count_deltas"
    __table_args__ = (Index("route_count_deltas_by_tenant", "company_id", "environment"),)
    __mapper_args__: ClassVar[dict[str, Any]] = {"primary_key": ["company_id", "environment", "status", "day"]}

    company_id: UUID
    environment: str
    status: str
    day: datetime = _time()
    routes: int


class Visits(SQLModel, table=True):
    """The truck at one stop of a route, with the fixes and the rule that decided it."""

    __tablename__ = "visits"
    __table_args__ = (
        Index("visits_with_evidence", "route_id", postgresql_where=text("arrival_evidence IS NOT NULL")),
        Index("visits_by_vehicle", "vehicle_id", "environment", "stored_at"),
    )

    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    stop: int = Field(primary_key=True)
    """Position in `routes.stops`, from 0."""
    vehicle_id: UUID | None = None
    """The vehicle that made it. NULL where an earlier release stored it for a route without one."""
    arrived_at: datetime = _time()
    departed_at: datetime | None = _time(null=True)
    arrival_evidence: dict[str, Any] | None = _json(null=True)
    """The rule and the fixes, or who marked it and why; see `routes/visits.py`. NULL once it was forgotten."""
    departure_evidence: dict[str, Any] | None = _json(null=True)
    stored_at: datetime = _time(now=True)
    """By our clock, when the truck was last found to have moved the route on: the same for all visits of a route."""


class RouteEvents(SQLModel, table=True):
    """What somebody asked for, or what failed, and no other table keeps: see `routes/events.py`."""

    __tablename__ = "route_events"
    __table_args__ = (Index("route_events_with_detail", "route_id", postgresql_where=text("detail IS NOT NULL")),)

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", index=True)
    at: datetime = _time()
    kind: str
    actor: str | None = None
    """The e-mail address of whoever asked. NULL: the service itself."""
    detail: str | None = None
    """The reason, or the error. NULL once it was forgotten."""


class Plans(SQLModel, table=True):
    """A computed fuel plan, with everything that explains it. A route's current one is `routes.plan_id`."""

    __tablename__ = "plans"
    __table_args__ = (Index("plans_explained", "route_id", postgresql_where=text("explanation IS NOT NULL")),)

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", index=True)
    revision: int
    generated_at: datetime = _time()
    document: dict[str, Any] | None = _json(null=True)
    """The contract's FuelPlan without its status; NULL where no plan is feasible."""
    explanation: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """Inputs, candidates, objective and line, from which `fuelroute explain` tells why: `planning/explanation.py` packs
    them. NULL once it was forgotten."""
    fuel_percent: float
    """The level that it was made with, or for which a review found nothing better."""
    fuel_at: datetime | None = _time(null=True)
    """When the truck read the level that it was made with; NULL: none was known."""
    price_set: int | None = Field(default=None, sa_column=Column(BigInteger))
    """The newest of `price_sets` that it was made or reviewed with."""
    timeline: list[dict[str, Any]] = _json()
    """Planned arrival and mile of each stop that was left: stop, mile, plannedArrival."""
    as_of: datetime | None = _time(null=True)
    """The moment of which it was made: now, or in the sandbox the time of a fix."""
    cause: dict[str, Any] | None = _json(null=True)
    """Why it was made where the route had a plan already; see `domain/documents.py`."""


class Messages(SQLModel, table=True):
    """A plan's message to the driver."""

    __tablename__ = "messages"
    __table_args__ = (
        Index("messages_due", "retry_at", postgresql_where=text("status = 'pending'")),
        Index("messages_by_company", "company_id", "created_at"),
        Index("messages_by_driver", "driver_id"),
        Index("messages_with_text", "route_id", postgresql_where=text("text IS NOT NULL")),
        CheckConstraint("status IN ('pending', 'sent', 'suppressed', 'failed')", name="status"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", index=True)
    plan_id: UUID = Field(foreign_key="plans.id", unique=True)
    driver_id: UUID = Field(foreign_key="drivers.id")
    status: str = _default("'pending'")
    channel: str | None = None
    """How it went or is going: `outbox`, `sandbox`, or a gateway's schema such as `mailtos`. Never its secrets."""
    text: str | None = None
    """NULL once it was forgotten."""
    attempts: int = _default("0")
    error: str | None = None
    created_at: datetime = _time(now=True)
    queued_at: datetime = _time(now=True)
    """Since when it is tried: since it was created, or sent again by hand."""
    retry_at: datetime | None = _time(now=True, null=True)
    claimed_until: datetime | None = _time(null=True)
    """Until then a worker may be handing it over. Once past: what came of that attempt is not known."""
    sent_at: datetime | None = _time(null=True)


class Savings(SQLModel, table=True):
    """What the plan that a driver has saves, one row for each route that is `active` or `completed`; see `savings`."""

    __tablename__ = "savings"
    __table_args__ = (Index("savings_by_time", "company_id", "environment", "planned_at"),)

    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    company_id: UUID
    environment: str
    plan_id: UUID
    planned_at: datetime = _time()
    """`generated_at` of the plan: the span that it counts in."""
    vehicle_id: UUID
    driver_id: UUID
    origin: str
    destination: str
    """The ends of its lane."""
    gallons: float
    cost_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    saved_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """NULL for a plan without a purchase."""


class Positions(SQLModel, table=True):
    """One GPS fix. The live ones are kept in one partition for each day, which go as a whole; see `feed`."""

    __tablename__ = "positions"
    __table_args__ = {"postgresql_partition_by": "LIST (environment)"}

    company_id: UUID
    vehicle_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    recorded_at: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    latitude: float
    longitude: float
    speed_mph: float | None = None
    fuel_percent: float | None = None
    accuracy_meters: float | None = None
    received_at: datetime = _time(now=True)
    implausible: bool = _default("false")
    """Judged to be a wild fix: too fast from its neighbours to be true."""


class Tracks(SQLModel, table=True):
    """A vehicle in one environment: how far its positions have been processed. The sweep finds lost processing here."""

    __tablename__ = "tracks"
    __table_args__ = (
        Index("tracks_unprocessed", "unprocessed_since", postgresql_where=text("unprocessed_from IS NOT NULL")),
        # each report changes every truck's row: with room beside it, its index entries stay as they are
        {"postgresql_with": {"fillfactor": 70}},
    )

    company_id: UUID
    vehicle_id: UUID = Field(primary_key=True, foreign_key="vehicles.id")
    environment: str = Field(primary_key=True)
    oldest_at: datetime = _time()
    newest_at: datetime = _time()
    latitude: float
    longitude: float
    """The last position: that of `newest_at`."""
    unprocessed_from: datetime | None = _time(null=True)
    """`recorded_at` of the earliest fix that has not been compared with the stops; NULL: none."""
    unprocessed_since: datetime | None = _time(null=True)
    """How long it has been waiting to be processed. What comes in meanwhile does not renew it."""
    free_since: datetime | None = _time(null=True)
    """Fix time at which the truck completed its last route: what was recorded before belongs to that one."""
    freed_at: datetime | None = _time(null=True)
    """When that was decided."""
    watch_from: datetime | None = _time(null=True)
    """`recorded_at` of the fix from which on those to come are compared with the road of the plan; see `watches`."""
    watch_at: datetime | None = _time(null=True)
    """Fixes recorded from then on may show that the truck has left that road. NULL: it is not watched."""
    fuel_stops_passed: int = _default("0")
    """How many of the driver's fuel stops are behind the truck, while it is watched."""


class DroppedFixes(SQLModel, table=True):
    """How many fixes were dropped, by day and reason: accepted by the feed, used for nothing."""

    __tablename__ = "dropped_fixes"

    company_id: UUID = Field(primary_key=True, foreign_key="companies.id")
    environment: str = Field(primary_key=True)
    day: date = Field(primary_key=True)
    reason: str = Field(primary_key=True)
    count: int = _default("0")


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
    priced_at: datetime | None = _time(null=True)
    retired_at: datetime | None = _time(null=True)
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
    surcharge_per_gallon: float = _default("0")


class PriceSets(SQLModel, table=True):
    """One import of stations, taxes or (of a company) deals: what was priced from then on was priced with it."""

    __tablename__ = "price_sets"

    id: int | None = Field(default=None, sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    kind: str
    company_id: UUID | None = Field(default=None, foreign_key="companies.id")
    imported_at: datetime = _time()


class Erasures(SQLModel, table=True):
    """That a company or a driver was erased, and when: all that is left of a company."""

    __tablename__ = "erasures"

    subject_id: UUID = Field(primary_key=True)
    erased_at: datetime = _time()


class QueuePauses(SQLModel, table=True):
    """A queue from which workers take no job until the row is gone."""

    __tablename__ = "queue_pauses"

    queue: str = Field(primary_key=True)
    paused_at: datetime = _time()
    paused_by: str
    reason: str


class AuditLog(SQLModel, table=True):
    """What somebody did, to a company or to the whole service, and why. Entries are never changed."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("audit_log_of_company", "company_id", "id"), Index("audit_log_by_subject", "subject", "id"))

    id: UUID = Field(primary_key=True)
    """Tells the order."""
    company_id: UUID | None = Field(default=None, foreign_key="companies.id")
    """NULL: it was done to the whole service."""
    at: datetime = _time()
    actor: str
    """An e-mail address, or who gave a command on which machine."""
    action: str
    subject: str
    reason: str
    affected: int
    """How many things it was done to."""


class RequestLog(SQLModel, table=True):
    """A request of a valid key, and what it was answered; see `requests`. Entries of a day are in one partition. Most
    work of writing is done by the indexes, so there is one that names a row, one of those that failed, and one that
    finds whole names roughly, at a tenth of the price of an exact one."""

    __tablename__ = "request_log"
    __table_args__ = (
        Index("request_log_failed", "key_id", "id", postgresql_where=text("status >= 400")),
        Index("request_log_names", "subject", "request_id", postgresql_using="brin"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    key_id: UUID = Field(primary_key=True)
    id: UUID = Field(primary_key=True)
    """Tells when it came in."""
    company_id: UUID
    environment: str
    method: str
    path: str
    """As the API's description writes it, or `(none)`."""
    status: int = Field(sa_column=Column(SmallInteger, nullable=False))
    code: str | None = None
    """Of the problem that it was answered with."""
    milliseconds: float = Field(sa_column=Column(REAL, nullable=False))
    size: int
    """Bytes of the body."""
    times: int
    """How many requests it stands for. Those beyond the rate limit are written once a second."""
    request_id: str | None = None
    """The one that the caller gave; NULL: `id` is the request's."""
    subject: str | None = None
    """Which load or route it is about: an `externalId`, or a route's id."""
    sent: str | None = None
    """What was sent, redacted, the first 4 KB; NULL: nothing, or nothing of it was kept."""
    faults: str | None = None
    """What was wrong with it, a line for each field."""


class CsvImports(SQLModel, table=True):
    """A CSV file that somebody brought to the console, and what became of it."""

    __tablename__ = "csv_imports"
    __table_args__ = (
        Index("csv_imports_by_company", "company_id", "id"),
        Index(
            "csv_imports_running",
            "company_id",
            unique=True,
            postgresql_where=text("finished_at IS NULL"),
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID | None = Field(default=None, foreign_key="companies.id")
    """NULL: stations or taxes, which are the same for all."""
    kind: str
    actor: str
    """An e-mail address."""
    started_at: datetime = _time()
    beat_at: datetime = _time()
    """When the process that imports was last heard of."""
    rows_total: int
    """About how many rows the file has."""
    rows_read: int = _default("0")
    finished_at: datetime | None = _time(null=True)
    created: int = _default("0")
    updated: int = _default("0")
    unchanged: int = _default("0")
    refused: int = _default("0")
    rejected: list[dict[str, Any]] | None = _json(null=True)
    """The first of the refused rows: line, message."""
    fault: str | None = None
    """Why nothing was imported."""

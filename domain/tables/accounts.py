"""Companies, their API keys, and the people who sign in to the console."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, LargeBinary, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment, MapLink, Objective, Role
from domain.tables.columns import is_one_of, time_column, with_default


class Companies(SQLModel, table=True):
    """A tenant, with its import and planning policy."""

    __tablename__ = "companies"
    __table_args__ = (
        CheckConstraint(is_one_of("objective", Objective), name="objective"),
        CheckConstraint(is_one_of("map_link", MapLink), name="map_link"),
    )

    id: UUID = Field(primary_key=True)
    name: str
    time_zone: str = with_default("'UTC'")
    import_window_days: float = with_default("7")
    superseding: bool = with_default("false")
    reserve_percent: float = with_default("15")
    end_fuel_percent: float = with_default("25")
    assumed_fuel_percent: float = with_default("50")
    min_purchase_gallons: float = with_default("30")
    stop_cost: float = with_default("20")
    max_detour_miles: float = with_default("5")
    max_stops: int | None = None
    objective: str = with_default("'pump'")
    leftover_value_per_gallon: float = with_default("0")
    fuel_margin_percent: float = with_default("0")
    """No plan follows it any more: `trips_below_reserve_percent` has taken its place."""
    trips_below_reserve_percent: float = with_default("100")
    margin_dollars: float = with_default("3")
    """The most that a plan may cost more for a margin beyond the reserve; 0: no plan has one for that reason."""
    savings_target_per_week: float = with_default("0")
    """Dollars; 0 for no target."""
    statement_day: int = with_default("5")
    """The day of the month on which the statement of the month before is made and sent; see `savings`."""
    driver_allowance: float = with_default("0")
    """Dollars a trip that a driver may spend on choices by himself."""
    prices_for_drivers: bool = with_default("true")
    """False if messages and drivers' pages leave prices and costs of purchases out."""
    map_link: str = with_default("'google'")
    mpg_choice: str = with_default("'learned'")
    replan_en_route: bool = with_default("false")
    watch_burn: bool = with_default("true")
    """True if a truck gets a new plan whose fuel does not bring it to its next purchase above `burn_floor_percent`."""
    burn_floor_percent: float = with_default("12")
    answer_by_miles: float = with_default("0")
    """A dispatcher is told of a driver who has not answered so many miles before his next fuel stop; 0: nobody is."""
    detention_free_minutes: float = with_default("120")
    """The minutes at a stop before detention begins; see `detention/free_time.py`."""
    detention_judged_minutes: float | None = None
    """The minutes by which the pass for detained trucks judges; it judges again where the policy has others by now."""
    driven_lanes: bool = with_default("true")
    """True if plans take the roads that trucks took before; see `driven_lanes`."""
    sandbox_autodrive: str = with_default("'off'")
    """The speed at which simulated trucks drive the routes of the sandbox, such as `60x`; `off` if they do not
    drive."""
    message_url: str | None = None
    """Sealed like a driver's contact; see `contacts`."""
    created_at: datetime = time_column(now=True)
    retired_at: datetime | None = time_column(null=True)
    """When the company was retired: its keys are refused, and nothing of it moves."""


class ApiKeys(SQLModel, table=True):
    """One API key. The key itself is never stored: only its visible prefix and its hash."""

    __tablename__ = "api_keys"
    __table_args__ = (CheckConstraint(is_one_of("environment", Environment), name="environment"),)

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id", index=True)
    name: str
    environment: str
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    prefix: str = Field(index=True)
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = time_column(now=True)
    expires_at: datetime | None = time_column(null=True)
    revoked_at: datetime | None = time_column(null=True)
    last_used_at: datetime | None = time_column(null=True)
    """Exact to the minute: the ingress writes it from its memory."""


class Users(SQLModel, table=True):
    """A person who signs in to the console: one of a company, or an operator, who sees all of them."""

    __tablename__ = "users"
    __table_args__ = (
        UniqueConstraint("email", name="users_email"),
        UniqueConstraint("openid_issuer", "openid_subject", name="users_openid"),
        CheckConstraint(is_one_of("role", Role), name="role"),
        CheckConstraint("(role = 'operator') = (company_id IS NULL)", name="users_company"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID | None = Field(default=None, foreign_key="companies.id", index=True)
    email: str
    """The address in lower case."""
    role: str
    password_hash: str | None = None
    """Argon2id; NULL until the user sets a password through a link."""
    totp_secret: str | None = None
    """The secret of one-time codes, sealed like contacts; NULL if no code is asked for."""
    totp_used_step: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default=text("0")))
    """The time step of the last accepted code. A code is not accepted twice."""
    openid_issuer: str | None = None
    """The OpenID Connect provider of the account with which the user signs in; NULL if none is bound."""
    openid_subject: str | None = None
    """The provider's own id of that account, which never changes."""
    created_at: datetime = time_column(now=True)


class Sessions(SQLModel, table=True):
    """A browser that is signed in. Only the hash of the token in its cookie is stored."""

    __tablename__ = "sessions"

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: UUID = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    company_id: UUID | None = Field(default=None, foreign_key="companies.id", ondelete="SET NULL")
    """The company that an operator has chosen."""
    address: str
    created_at: datetime = time_column()
    seen_at: datetime = time_column()


class Devices(SQLModel, table=True):
    """A browser in which a user has signed in before. Strangers' attempts elsewhere do not slow it down."""

    __tablename__ = "devices"

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: UUID = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    network: str | None = None
    """The network of its last sign-in: an IPv4 address or a /64 of IPv6; NULL if not known."""
    created_at: datetime = time_column()


class PasswordLinks(SQLModel, table=True):
    """A one-time link with which a user sets a password."""

    __tablename__ = "password_links"

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: UUID = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    created_at: datetime = time_column()


class OpenidProofs(SQLModel, table=True):
    """An account that a person has just proved to own at the provider; the person is asked whether it shall sign them
    in."""

    __tablename__ = "openid_proofs"

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: UUID = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    link_hash: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The invitation that was opened; NULL if the account's verified address is the user's."""
    issuer: str
    subject: str
    email: str | None = None
    """The account's verified address; NULL if it has none."""
    next_path: str
    created_at: datetime = time_column()


class RecoveryCodes(SQLModel, table=True):
    """A code that stands in once for a one-time code, and is deleted when used."""

    __tablename__ = "recovery_codes"

    user_id: UUID = Field(foreign_key="users.id", primary_key=True, ondelete="CASCADE")
    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    created_at: datetime = time_column()


class TableColumns(SQLModel, table=True):
    """The columns that a user has chosen for a table of the console."""

    __tablename__ = "table_columns"

    user_id: UUID = Field(foreign_key="users.id", primary_key=True, ondelete="CASCADE")
    table_name: str = Field(primary_key=True)
    columns: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))


class SavedFilters(SQLModel, table=True):
    """A filter of a list that a user of a company has saved."""

    __tablename__ = "saved_filters"

    user_id: UUID = Field(foreign_key="users.id", primary_key=True, ondelete="CASCADE")
    list_name: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    company_id: UUID = Field(index=True)
    """The company of the user. There is no foreign key, as for notices: a migration that locks companies would stand in
    the way of requests."""
    query: str


class SignInAttempts(SQLModel, table=True):
    """Recent failed attempts to sign in."""

    __tablename__ = "sign_in_attempts"

    subject: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    """A hash of what the attempts have in common: a device, a network, an account, or an account from a network."""
    attempts: float
    """The number of attempts as of the last one. It falls bit by bit; see `accounts/attempts.py`."""
    last_at: datetime = time_column()
    forgotten_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False, index=True))
    """When none of the attempts counts any more."""

"""All configuration, read from environment variables with the prefix `FUELROUTE_`."""

import base64
import difflib
import functools
import ipaddress
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from domain.addresses import (
    http_address,
    is_host,
    is_local,
    open_http_address,
    postgres_address,
    public_page_address,
    reachable,
    redis_address,
    replica_address,
)
from domain.errors import FuelrouteError

STACK_FILE = "stack.json"
"""The file in which `fuelroute up` writes, in its data folder, where the running stack's servers are."""

DEMO_FILE = "demo.json"
"""The file in the data folder with the keys of the demo that was made there."""


MAX_DAYS = 36_500
"""A hundred years stand for "for ever". A longer time would lead to a date before the year 1, on which each pass would
fail."""

_LOOKS_LIKE = 0.9
"""Least likeness of two names, from 0 to 1. With less, names of our clients and of Compose would look mistyped."""

_MOST = MAX_DAYS * 86_400
"""The greatest number of any setting: a hundred years in seconds."""

CONTACT_KEY_FILE = "contact.key"
"""The file with the key that seals contacts, for the embedded database. `fuelroute up` makes it in its data folder."""


SECRETS = (
    "database_url",
    "database_direct_url",
    "database_replica_url",
    "redis_url",
    "valhalla_url",
    "contact_key",
    "openid_client_secret",
)
"""Settings that hold passwords or keys. `FUELROUTE_<NAME>_FILE` names a file with the value."""


def proxy_networks(proxies: str) -> str:
    """Checks the list of addresses and networks of IP, separated by commas, and returns it. Raises ValueError if one is
    neither."""
    for one in filter(None, map(str.strip, proxies.split(","))):
        try:
            ipaddress.ip_network(one)
        except ValueError:
            raise ValueError("give addresses or networks separated by commas, such as 10.0.0.5,10.1.0.0/16") from None
    return proxies


def hosts_and_networks(entries: str) -> str:
    """Checks the list of hosts and networks of IP, separated by commas, and returns it. Raises ValueError if one is
    neither: it would allow nothing."""
    for one in filter(None, map(str.strip, entries.split(","))):
        try:
            ipaddress.ip_network(one, strict=False)
        except ValueError:
            if not is_host(one):
                raise ValueError(
                    "give hosts, without a scheme, a port or a path, or networks, separated by commas, such as"
                    " gateway.internal,10.1.0.0/16"
                ) from None
    return entries


class MissingServer(FuelrouteError):
    """No address is known for a server that the command needs."""

    def __init__(self, server: str, variable: str, data: Path) -> None:
        super().__init__(
            f"no {server} is known: set {variable}, or start the stack with `fuelroute up` "
            f"(looked for a running one in {data}; FUELROUTE_DATA names another folder)"
        )


class UnusableSetting(FuelrouteError):
    """A variable cannot be understood; the text names it."""


class FilesOfSecrets(PydanticBaseSettingsSource):
    """Reads a secret from the file that `FUELROUTE_<NAME>_FILE` names, as containers and systemd hand secrets over: the
    list of processes and the environment of children do not show it. Raises UnusableSetting if the file cannot be read;
    the process does not start."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        variable = f"FUELROUTE_{field_name.upper()}"
        name = os.environ.get(f"{variable}_FILE") if field_name in SECRETS else None
        if not name:
            return None, field_name, False
        if os.environ.get(variable):
            raise UnusableSetting(f"{variable}_FILE and {variable} are both set: unset one of them")
        try:
            secret = Path(name).read_text().strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UnusableSetting(f"{variable}_FILE: cannot read {name} ({reason})") from None
        if not secret:
            raise UnusableSetting(f"{variable}_FILE: {name} is empty")
        return secret, field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in values.items() if value is not None}


class Settings(BaseSettings):
    """One field is one variable: `import_wait_seconds` is `FUELROUTE_IMPORT_WAIT_SECONDS`."""

    # Refused values are not repeated: one may be a mistyped password.
    model_config = SettingsConfigDict(env_prefix="FUELROUTE_", env_ignore_empty=True, hide_input_in_errors=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, FilesOfSecrets(settings_cls)

    data: Path = Field(Path(".fuelroute"), description="Folder of the embedded stack; other commands find it there")
    database_url: Annotated[str, AfterValidator(postgres_address)] | None = Field(
        None, repr=False, description="PostgreSQL 15 or later; the embedded one when not set"
    )
    database_direct_url: Annotated[str, AfterValidator(postgres_address)] | None = Field(
        None,
        repr=False,
        description="The same database without a pooler, where FUELROUTE_DATABASE_URL leads to one in transaction mode:"
        " for the scheduler, migrations and commands",
    )
    database_replica_url: Annotated[str, AfterValidator(replica_address)] | None = Field(
        None,
        repr=False,
        description="Replica of the database that the API reads routes from, or several: host1,host2; none unless set",
    )
    database_replica_lag_seconds: float = Field(
        2, gt=0, description="A replica that is further behind is not read from"
    )
    redis_url: Annotated[str, AfterValidator(redis_address)] | None = Field(
        None,
        repr=False,
        description="Redis 6.2 or later, or Valkey; redis+sentinel:// names Sentinels; the embedded one when not set",
    )
    valhalla_url: Annotated[str, AfterValidator(http_address)] | None = Field(
        None, repr=False, description="Valhalla for truck roads; the embedded main roads when not set"
    )
    roads_pbf: Path | None = Field(
        None,
        description="Extract of OpenStreetMap (.osm.pbf) over which `up` runs a Valhalla of its own; none unless set",
    )
    roads_file: Path | None = Field(
        None,
        description="File of main roads that `fuelroute roads build --from` made; that of the package when not set",
    )
    roads_host: str = Field("127.0.0.1", description="Address that the Valhalla of `up` or `roads serve` listens on")
    roads_port: int = Field(8002, ge=0, le=65535, description="Port of that Valhalla; 0 takes a free one")

    archive: Path | None = Field(
        None,
        description="Folder for backups of the embedded database; `up` archives every change there; none unless set",
    )

    cell: int = Field(
        1, ge=1, le=9999, description="Number of the cell that this process belongs to; keys that it makes carry it"
    )
    companies_can_leave: bool = Field(
        False,
        description="The embedded PostgreSQL of `up` writes a log from which companies can be moved to other cells",
    )
    cells_file: Path | None = Field(
        None, description="File with the addresses of the cells' databases, for `companies move`"
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged")
    log_format: Literal["json", "text"] = Field("json", description="JSON lines, or text for people")

    host: str = Field("127.0.0.1", description="Address the ingress listens on")
    port: int = Field(8080, ge=0, le=65535, description="Port the ingress listens on")
    console_host: str = Field("127.0.0.1", description="Address the console listens on")
    console_port: int | None = Field(
        None, ge=0, le=65535, description="Port the console listens on; the one after the ingress's unless set"
    )
    proxies: Annotated[str, AfterValidator(proxy_networks)] = Field(
        "",
        description="Proxies in front of the ingress and the console, addresses or networks separated by commas: what"
        " they say of the client's address and of https is believed",
    )
    proxy_header: Literal["x-forwarded-for", "forwarded"] = Field(
        "x-forwarded-for",
        description="The header in which the proxies name the client: X-Forwarded-For (and X-Forwarded-Proto), or"
        " Forwarded. Only the one that they write themselves is believed",
    )
    console_proxies: Annotated[str, AfterValidator(proxy_networks)] = Field(
        "", description="More proxies, in front of the console alone; its name before FUELROUTE_PROXIES"
    )
    console_url: Annotated[str, AfterValidator(http_address)] | None = Field(
        None, description="The console's address for people, as links in it begin; its own host and port when not set"
    )
    api_url: Annotated[str, AfterValidator(http_address)] | None = Field(
        None, description="The API's address for its callers, as the console shows it; host and port when not set"
    )
    driver_page_url: Annotated[str, AfterValidator(public_page_address)] | None = Field(
        None,
        description="The public address under which phones reach the ingress, for links in messages to the driver's"
        " page; no links and no page when not set",
    )
    driver_link_hours: float = Field(
        24, ge=0, le=24 * MAX_DAYS, description="How long after the end of its trip a link to the driver's page works"
    )
    map_style_url: Annotated[str, AfterValidator(open_http_address)] | None = Field(
        None,
        description="Style of MapLibre for the maps of the console, with tiles and letters from the same server, which"
        " learns where its users look; the base map of the package when not set",
    )
    openid_client_id: str | None = Field(None, description="The console's client id at the OpenID Connect provider")
    openid_client_secret: SecretStr | None = Field(
        None, description="The password of that client; none for a public one, which PKCE protects alone"
    )
    openid_issuer: str | None = Field(
        None,
        description="Issuer of the OpenID Connect provider with whose accounts people may sign in to the console;"
        " passwords alone when not set",
    )
    openid_scopes: str = Field("openid email", description="Scopes that the provider is asked for")
    openid_label: str = Field(
        "OpenID Connect", max_length=40, description="Name of the provider, as the page to sign in shows it"
    )
    connections: int = Field(4096, ge=0, description="Connections to one ingress process, at most; 0 is no bound")
    connections_per_address: int = Field(
        2048,
        ge=0,
        description="Of them from one address, at most; 0 is no bound. Behind FUELROUTE_PROXIES it bounds the requests"
        " of one client that are under way",
    )
    head_timeout_seconds: float = Field(10, gt=0, description="How long the headers of a request may take to arrive")
    keep_alive_seconds: int = Field(
        75, ge=1, description="How long a connection may rest between requests; longer than a proxy in front lets it"
    )
    answer_timeout_seconds: float = Field(30, gt=0, description="How long a client may leave an answer unread")
    drain_seconds: float = Field(
        0,
        ge=0,
        le=600,
        description="How long the ingress and the console go on accepting connections after SIGTERM, while /readyz says"
        " 503: as long as load balancers take to notice",
    )
    stop_seconds: int = Field(
        5,
        ge=1,
        le=600,
        description="How long a process that was told to stop finishes what it has begun, at most; workers then return"
        " their jobs. Workers of the messages queue wait for a gateway as long as an attempt may take",
    )
    database_pool_size: int = Field(
        8,
        ge=2,
        description="Connections to PostgreSQL of one process, at most: so many for work by key, so many for the rest",
    )
    database_timeout_seconds: float = Field(3, gt=0, description="Longest wait for a connection to PostgreSQL")

    import_wait_seconds: float = Field(1.0, ge=0, description="How long a push waits for the outcome of its import")
    push_batch_routes: int = Field(64, ge=1, description="Routes committed together at most")
    body_memory_megabytes: int = Field(
        128,
        ge=32,
        description="Bodies that an ingress process reads and stores at a time; a 32nd of it is for one company, others"
        " wait in their sockets",
    )
    body_timeout_seconds: float = Field(
        10, gt=0, description="How long a request's body may wait for its place, and then take to arrive"
    )
    feed_positions_per_minute: int = Field(
        600_000, ge=1000, description="Positions that one key may send to the feed in any minute"
    )
    feed_requests_per_minute: int = Field(
        6_000, ge=1, description="Requests that one key may make to the feed in any minute"
    )
    preview_processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes of one ingress, and of the console, that compute previews of loads at most",
    )
    previews_per_minute: int = Field(300, ge=1, description="Previews of loads that one key may ask for in any minute")
    import_pass_seconds: float = Field(300, gt=0, description="Interval of the pass over held routes")
    sweep_seconds: float = Field(10, gt=0, description="Interval of the sweep for lost work")
    autodrive_seconds: float = Field(2, gt=0, description="Interval of the pass that drives routes of the sandbox")
    notices_seconds: float = Field(
        60, gt=0, description="Interval of the pass that tells people when something needs them"
    )
    read_status_seconds: float = Field(
        60, gt=0, description="Interval of the pass that asks whether drivers have read messages in their cab"
    )
    notices_end_seconds: float = Field(
        600, ge=0, description="A need that people were told of is over when it has been gone for so long"
    )
    deals_per_company: int = Field(100_000, ge=1, description="Negotiated prices that a company may store")
    price_sources_seconds: float = Field(
        60, gt=0, description="Interval of the pass that looks for price files, and lets prices hold from their time on"
    )
    price_jump_percent: float = Field(
        20,
        gt=0,
        description="A price of a file that differs more from the one before is held for a person: diesel moves less "
        "within a week",
    )
    price_neighbor_percent: float = Field(
        25,
        gt=0,
        description="The same for the usual price within about 30 miles: neighbors differ by 10 to 15 percent",
    )
    price_state_percent: float = Field(
        35,
        gt=0,
        description="The same for the usual price in the state, and for a net price beside its retail price: discounts "
        "are less than a fifth",
    )
    cad_per_usd: float | None = Field(
        None,
        gt=0.9,
        lt=3,
        description="Canadian dollars for one US dollar, such as 1.38: prices in Canadian dollars are converted by it. "
        "Without it they are held",
    )
    mxn_per_usd: float | None = Field(None, gt=5, lt=100, description="The same for Mexican pesos, such as 18.5")
    autodrive_routes: int = Field(
        50, ge=1, le=1000, description="Routes that one such pass drives on at most, the companies in turn"
    )
    held_route_expiry_days: float = Field(
        7, gt=0, le=MAX_DAYS, description="A held route this far past its start becomes `error`"
    )
    active_route_expiry_days: float = Field(
        14,
        gt=0,
        le=MAX_DAYS,
        description="A started route, active or not yet, whose truck reached no stop for so long becomes `error`",
    )

    fuel_reading_wait_seconds: float = Field(
        300,
        ge=0,
        description="How long a first plan waits for the truck's next fuel level where neither miles nor time explain"
        " the newest one; then the level before it counts",
    )
    early_arrival_hours: float = Field(
        12, ge=0, le=24 * MAX_DAYS, description="How long before its start a route can start"
    )
    arrival_radius_meters: float = Field(250, gt=0, description="How near a truck must come to be at a stop")
    position_retention_days: float = Field(30, gt=0, le=MAX_DAYS, description="How long positions are kept")
    evidence_retention_days: float = Field(
        90,
        gt=0,
        le=MAX_DAYS,
        description="How long the fixes that decided a visit are kept, from the end of its route",
    )
    explanation_retention_days: float = Field(
        90, gt=0, le=MAX_DAYS, description="How long `explain` can tell why a plan was made, from the end of its route"
    )
    trip_inputs_retention_days: float = Field(
        730,
        gt=0,
        le=MAX_DAYS,
        description="How long a driven trip can be replayed, from the end of its route: packed, the inputs of its plan"
        " are kept beyond its explanation",
    )
    message_text_retention_days: float = Field(
        90, gt=0, le=MAX_DAYS, description="How long the texts sent to drivers are kept, from the end of the route"
    )
    route_retention_days: float | None = Field(
        None,
        gt=0,
        le=MAX_DAYS,
        description="How long a route is kept from its end, with its plans and messages; for ever unless set",
    )

    fill_retention_days: float | None = Field(
        None,
        gt=0,
        le=MAX_DAYS,
        description="How long purchases of fuel cards are kept; for ever unless set. IFTA asks for four years",
    )
    fill_far_miles: float = Field(
        5, gt=0, description="A purchase is flagged if its truck was further away from the station at that time"
    )

    audit_retention_days: float = Field(730, gt=0, le=MAX_DAYS, description="How long the audit log is kept")
    request_log_days: float = Field(
        7, ge=0, le=MAX_DAYS, description="How long the console can show what API keys asked; 0 keeps no such log"
    )
    request_log_rows: int = Field(
        100_000, ge=1000, description="Requests of one API key that are kept, at most; the newest stay"
    )

    contact_key: SecretStr | None = Field(
        None,
        description="Key that contacts and message URLs are sealed with, 32 bytes in base64; after a comma"
        " those that it replaces",
    )

    plan_horizon_miles: float = Field(
        10_000, ge=100, description="How far ahead a fuel plan looks, in road miles; `explain` says where it ends"
    )
    hard_floor_percent: float = Field(
        2,
        ge=0,
        le=50,
        description="If a planned fuel stop is closed, another station is in reach with this much fuel left, in percent"
        " of the tank's capacity",
    )
    hard_floor_miles: float = Field(
        25, ge=0, le=1000, description="The same in miles that the fuel lasts for; the greater of the two counts"
    )
    step_attempts: int = Field(
        8, ge=1, description="Attempts at an import or a plan before the route is `error`, or at a review or a menu"
    )
    message_retry_hours: float = Field(
        24, gt=0, le=24 * MAX_DAYS, description="How long an undeliverable message is retried"
    )
    message_timeout_seconds: float = Field(15, gt=0, le=600, description="How long one attempt at a message may take")
    message_allowed_hosts: Annotated[str, AfterValidator(hosts_and_networks)] = Field(
        "", description="Message gateways inside the network: hosts and networks (CIDR), separated by commas"
    )

    webhook_timeout_seconds: float = Field(
        10, gt=0, le=600, description="How long one attempt at the delivery of a webhook may take"
    )
    webhook_retry_hours: float = Field(
        24, gt=0, le=24 * MAX_DAYS, description="How long the delivery of a webhook is tried again"
    )
    webhook_failing_days: float = Field(
        5, gt=0, le=MAX_DAYS, description="A webhook endpoint that took nothing for so long is disabled"
    )
    webhook_retention_days: float = Field(
        30, gt=0, le=MAX_DAYS, description="How long webhook events, their payloads and the answers are kept"
    )
    webhook_allowed_hosts: Annotated[str, AfterValidator(hosts_and_networks)] = Field(
        "",
        description="Webhook endpoints inside the network: hosts and networks (CIDR), separated by commas. They alone"
        " may use http://",
    )

    connector_poll_seconds: float = Field(
        10, ge=1, description="How often a vendor of telematics is asked; less often where the vendor wants that"
    )
    connector_answer_megabytes: int = Field(
        16, ge=1, le=256, description="The most that one answer of a vendor of telematics may have"
    )
    connector_answer_vehicles: int = Field(
        20_000, ge=100, description="Vehicles that one answer of a vendor of telematics may name"
    )
    connector_allowed_hosts: Annotated[str, AfterValidator(hosts_and_networks)] = Field(
        "",
        description="Vendors of telematics inside the network, such as a Traccar of one's own: hosts and networks"
        " (CIDR), separated by commas. They alone may use http://",
    )

    metrics_port: str | None = Field(
        None,
        description="Port for a process's metrics, or ports such as 9110-9129 of which each process takes the first"
        " that is free; none unless set",
    )
    metrics_host: str = Field("127.0.0.1", description="Address that metrics are served on")
    worker_threads: int = Field(4, ge=1, description="Threads of one worker process")

    @field_validator("*")
    @classmethod
    def _is_within_reach(cls, value: Any) -> Any:
        """A number without a bound of its own leads to a time or a wait that no program can count."""
        if isinstance(value, int | float) and value > _MOST:
            raise ValueError(f"give a number of at most {_MOST:,}")
        return value

    @field_validator("contact_key")
    @classmethod
    def _usable_key(cls, keys: SecretStr | None) -> SecretStr | None:
        for key in keys.get_secret_value().split(",") if keys is not None else ():
            try:
                usable = len(base64.urlsafe_b64decode(key.strip())) == 32
            except ValueError:
                usable = False
            if not usable:
                raise ValueError("a key is 32 bytes in base64, as from `openssl rand -base64 32`")
        return keys

    @field_validator("openid_issuer")
    @classmethod
    def _usable_provider(cls, issuer: str | None, info: ValidationInfo) -> str | None:
        if issuer is None:
            return None
        parts = urlsplit(open_http_address(issuer))
        if parts.query or not (parts.scheme == "https" or is_local(parts.hostname or "")):
            raise ValueError("an issuer is an https:// address without a query, as the provider writes it")
        if not info.data.get("openid_client_id"):
            raise ValueError("set FUELROUTE_OPENID_CLIENT_ID too")
        return issuer

    @field_validator("openid_scopes")
    @classmethod
    def _asks_who_it_is(cls, scopes: str) -> str:
        if "openid" not in scopes.split():
            raise ValueError("the scopes name openid, and email unless invitations are opened first")
        return scopes

    def contact_keys(self) -> str | None:
        """The keys that seal contacts: the variable's, or those of the embedded stack in `data`."""
        if self.contact_key is not None:
            return self.contact_key.get_secret_value()
        if self.database_url is not None:
            return None
        try:
            return (self.data / CONTACT_KEY_FILE).read_text()
        except OSError:
            return None

    def worker_stop_seconds(self, *, sends_messages: bool) -> float:
        """Seconds for a stopping worker to finish its jobs. A message whose attempt is cut off may be sent twice, so
        attempts get the time to end."""
        return max(self.stop_seconds, self.message_timeout_seconds + 1 if sends_messages else 0)

    def longest_stop_seconds(self) -> float:
        """Seconds after which every one of our processes has ended after it was told to stop."""
        return max(self.drain_seconds + self.stop_seconds, self.worker_stop_seconds(sends_messages=True)) + 2

    @field_validator("metrics_port")
    @classmethod
    def _are_ports(cls, ports: str | None) -> str | None:
        if ports is not None:
            first, dash, last = ports.partition("-")
            if not (first.isdecimal() and (last.isdecimal() or not dash)):
                raise ValueError("give a port, or a range of ports such as 9110-9129")
            if not 1 <= int(first) <= int(last or first) <= 65535:
                raise ValueError("ports are numbers from 1 to 65535, the lower one first")
        return ports

    def metrics_ports(self) -> range:
        """The ports that a process may serve its metrics on."""
        if self.metrics_port is None:
            return range(0)
        first, _, last = self.metrics_port.partition("-")
        return range(int(first), int(last or first) + 1)

    def metrics_ports_of(self, processes: int) -> str | None:
        """The metrics ports for this many processes, from a single port on if only one is set; None if none is. Raises
        UnusableSetting if the ports are too few."""
        ports = self.metrics_ports()
        if len(ports) == 1:
            ports = range(ports[0], ports[0] + processes)
        if self.metrics_port is None:
            return None
        if len(ports) < processes or ports[-1] > 65535:
            raise UnusableSetting(
                f"FUELROUTE_METRICS_PORT: {self.metrics_port} is not enough for {processes} processes"
            )
        return f"{ports[0]}-{ports[-1]}"

    def require_database_url(self) -> str:
        """The database's address: the variable's, or that of the stack running in `data`."""
        url = self.database_url or self._of_running_stack("database_url")
        if url is None:
            raise MissingServer("PostgreSQL", "FUELROUTE_DATABASE_URL", self.data)
        return url

    def require_direct_url(self) -> str:
        """The database's address for work that needs a session of its own."""
        return self.database_direct_url or self.require_database_url()

    @property
    def is_pooled(self) -> bool:
        """True when a pooler in transaction mode stands before the database."""
        return self.database_direct_url is not None

    @field_validator("database_direct_url")
    @classmethod
    def _stands_beside_the_pooler(cls, url: str | None, info: ValidationInfo) -> str | None:
        if url is not None and not info.data.get("database_url"):
            raise ValueError("set FUELROUTE_DATABASE_URL too, to the pooler's address")
        return url

    def require_redis_url(self) -> str:
        """Redis's address: the variable's, or that of the stack running in `data`."""
        url = self.redis_url or self._of_running_stack("redis_url")
        if url is None:
            raise MissingServer("Redis", "FUELROUTE_REDIS_URL", self.data)
        return url

    def http_url(self) -> str:
        """The address of the ingress: that of the stack running in `data`, or by this process's own settings."""
        return self._of_running_stack("http_url") or f"http://{reachable(self.host)}:{self.port}"

    def roads_url(self) -> str | None:
        """The address of Valhalla: the setting's, or that of the stack running in `data`."""
        return self.valhalla_url or self._of_running_stack("valhalla_url")

    def api_address(self) -> str:
        """The address of the API for its callers."""
        return (self.api_url or self.http_url()).rstrip("/")

    def console_address(self) -> str:
        """The address of the console for people."""
        own = f"http://{reachable(self.console_host)}:{self.console_port_or_next()}"
        return (self.console_url or self._of_running_stack("console_url") or own).rstrip("/")

    def driver_page_address(self) -> str | None:
        """The public address of the driver's page, without a path; None where there is no such page."""
        return self.driver_page_url.rstrip("/") if self.driver_page_url is not None else None

    def console_port_or_next(self) -> int:
        """The console's port. 0 stands for a free one, as for the ingress."""
        if self.console_port is not None:
            return self.console_port
        return min(self.port + 1, 65535) if self.port else 0

    def _of_running_stack(self, name: str) -> str | None:
        try:
            value = json.loads((self.data / STACK_FILE).read_text()).get(name)
        except (OSError, ValueError):
            return None
        return value if isinstance(value, str) else None


def mistyped_variables(variables: Iterable[str]) -> dict[str, str]:
    """The variables that are no settings and look like one, with the setting that is meant. They change nothing."""
    known = [f"FUELROUTE_{name.upper()}" for name in Settings.model_fields]
    known += [f"FUELROUTE_{name.upper()}_FILE" for name in SECRETS]
    unknown = sorted(name for name in variables if name.startswith("FUELROUTE_") and name not in known)
    meant = {name: difflib.get_close_matches(name, known, n=1, cutoff=_LOOKS_LIKE) for name in unknown}
    return {name: found[0] for name, found in meant.items() if found}


@functools.cache
def get_settings() -> Settings:
    """This process's settings, read once. Raises UnusableSetting, which names the variable, if one cannot be
    understood."""
    try:
        return Settings()
    except ValidationError as error:
        fault = error.errors()[0]
        reason = fault["msg"].removeprefix("Value error, ")
        raise UnusableSetting(f"FUELROUTE_{str(fault['loc'][0]).upper()}: {reason}") from None

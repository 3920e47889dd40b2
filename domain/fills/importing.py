"""Stores the fills of a file, matches them, and figures their routes anew.

A file is stored in batches, each in a transaction of its own. A transaction that is stored already is recognized by its
key. So a file may be sent again, by two people at once, or after the process died in the middle.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.database import Connection, Tenant
from domain.file_profiles.products import Fuel
from domain.fills.card_files import AMOUNT_DOUBT, FileFill
from domain.fills.figuring import ROUTE_SLACK, figure_routes
from domain.fills.local_times import utc_of_local, zone_of
from domain.fills.matching import SURE_SCORE, KnownStation, KnownStations, match_station
from domain.ids import new_id
from domain.index_order import in_index_order
from domain.roads import Point, great_circle_miles
from domain.statements import Command, NotNull, Statement
from domain.stations.station_codes import CARD_CODES
from domain.telematics.readings import read_places_around

BATCH_FILLS = 500

TRUCK_WITHIN = timedelta(minutes=20)
"""The truck's place is asked for so long before and after a fill: clocks of pumps are not exact."""
TANK_SLACK_SHARE, TANK_SLACK_GALLONS = 0.02, 2.0
"""A pump may tell so much more than the tank holds."""
LEAST_DOLLARS, MOST_DOLLARS_PER_GALLON = 0.5, 15.0
"""A gallon that costs less or more was no gallon, or its price has a slip: a person looks."""


class StoredFills(NamedTuple):
    """The outcome of a batch, in fills."""

    created: int
    updated: int
    unchanged: int


class _Station(NamedTuple):
    station_id: str
    name: str
    brand: str | None
    city: str | None
    state: str | None
    latitude: float
    longitude: float


_STATIONS = Statement(
    _Station, "SELECT station_id, name, brand, city, state, latitude, longitude FROM stations ORDER BY station_id"
)


class _CardCode(NamedTuple):
    code: str
    station_id: str


_CARD_CODES = Statement(_CardCode, "SELECT code, station_id FROM station_codes WHERE company_id = %s AND code_set = %s")


def read_stations(connection: Connection, company_id: UUID) -> KnownStations:
    """All stations, with the company's codes of its card. Retired ones too: a truck may have fueled there while they
    were in service."""
    return KnownStations(
        (KnownStation(*row[:5], Point(*row[5:])) for row in _STATIONS.all(connection)),
        {row.code: row.station_id for row in _CARD_CODES.all(connection, (company_id, CARD_CODES))},
    )


def fill_batches(fills: Iterable[FileFill]) -> Iterator[list[FileFill]]:
    rest = iter(fills)
    while batch := list(islice(rest, BATCH_FILLS)):
        yield batch


class Matches(NamedTuple):
    """The matches of a fill, how sure they are, and what a person has to decide or should see."""

    bought_at: datetime
    time_zone: str
    vehicle_id: UUID | None
    station_id: str | None
    route_id: UUID | None
    score: int
    miles_from_truck: float | None
    review: list[str]
    flags: list[str]


class ToMatch(NamedTuple):
    """The input of the rules for one fill. A person's decisions take the place of the first three matches."""

    local_time: datetime
    has_time: bool
    unit_number: str | None
    location_name: str | None
    station_code: str | None
    city: str | None
    state: str
    fuel: str
    gallons: float
    paid_cents: int
    currency: str
    vehicle_id: UUID | None = None
    station_id: str | None = None
    doubts: Sequence[str] = ()


_STORED = (
    *("id", "company_id", "environment", "profile", "key", "transaction_number", "invoice_number", "card_last_four"),
    *("driver_name", "file_id", "twin_id", "has_time", "unit_number", "location_name", "station_code", "city", "state"),
    *("item", "fuel", "gallons", "paid_cents", "currency", "bought_at", "time_zone", "vehicle_id", "station_id"),
    *("route_id", "score", "miles_from_truck", "review", "flags"),
)
_INSERT = Command(
    f"INSERT INTO fills ({', '.join(_STORED)}) VALUES ({', '.join(f'%({name})s' for name in _STORED)})"  # noqa: S608
)


class _StoredFill(NamedTuple):
    id: UUID
    key: str
    bought_at: datetime
    time_zone: str
    unit_number: str | None
    fuel: str
    gallons: float
    paid_cents: int
    currency: str
    route_id: UUID | None
    counter_id: UUID | None
    decided_by: str | None


_KNOWN = Statement(
    _StoredFill,
    """
    SELECT f.id, f.key, f.bought_at, f.time_zone, f.unit_number, f.fuel, f.gallons, f.paid_cents, f.currency,
           f.route_id, f.counter_id, f.decided_by
    FROM fills f WHERE company_id = %(company_id)s AND environment = %(environment)s AND key = ANY(%(keys)s)
    ORDER BY key
    """,
)
"""In the order of the unique index: a first import leaves PostgreSQL without statistics, and the other indexes begin
with the same columns. They then look as good, and have it read all fills of the company."""
_FREE = Command("UPDATE fills SET counter_id = NULL WHERE id = ANY(%s)")
MATCHED = """
    bought_at = %(bought_at)s, time_zone = %(time_zone)s, vehicle_id = %(vehicle_id)s, station_id = %(station_id)s,
    route_id = %(route_id)s, score = %(score)s, miles_from_truck = %(miles_from_truck)s, review = %(review)s::text[],
    flags = %(flags)s::text[]
"""
_CHANGE = Command(
    f"""
    UPDATE fills SET unit_number = %(unit_number)s, gallons = %(gallons)s, paid_cents = %(paid_cents)s,
        currency = %(currency)s, has_time = %(has_time)s, {MATCHED},
        counter_id = NULL, decided_by = NULL, decided_at = NULL
    WHERE id = %(id)s
    """  # noqa: S608 (constants of this module)
)
"""The card has corrected a transaction: what a person decided about its old figures is open again."""


def store_fills(
    connection: Connection,
    tenant: Tenant,
    profile: str,
    fills: Sequence[FileFill],
    stations: KnownStations,
    *,
    far_miles: float,
) -> StoredFills:
    """Store a batch in the caller's transaction. Locks the company's row, then routes. Raises UnknownCompany,
    RetiredCompany."""
    lock_company(connection, tenant.company_id)
    keys = [fill.key for fill in fills]
    with in_index_order(connection):
        known = {row.key: row for row in _KNOWN.all(connection, {**tenant._asdict(), "keys": keys})}
    new = [fill for fill in fills if fill.key not in known]
    changed = [fill for fill in fills if fill.key in known and _differs(fill, known[fill.key])]
    matches = match_fills(
        connection, tenant, [_to_match(fill) for fill in new + changed], stations, far_miles=far_miles
    )
    routes = {one.route_id for one in matches if one.route_id is not None}
    rows = [
        {
            **fill._asdict(),
            **one._asdict(),
            **tenant._asdict(),
            "profile": profile,
            "file_id": fill.reading.id if fill.reading is not None else None,
            "twin_id": None,
            "id": known[fill.key].id if fill.key in known else new_id(),
        }
        for fill, one in zip(new + changed, matches, strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT.text, rows[: len(new)])
    for row, fill in zip(rows[len(new) :], changed, strict=True):
        before = known[fill.key]
        _FREE.execute(connection, ([before.counter_id],))
        _CHANGE.execute(connection, row)
        routes |= {before.route_id} if before.route_id is not None else set()
    figure_routes(connection, routes)
    return StoredFills(len(new), len(changed), len(fills) - len(new) - len(changed))


def finish_fills(connection: Connection, tenant: Tenant) -> None:
    """Pair reversals with the fills that they take back, whichever came first, once all batches are stored."""
    lock_company(connection, tenant.company_id)
    paired = _PAIR.all(connection, tenant._asdict())
    figure_routes(connection, {row.route_id for row in paired if row.route_id is not None})


def _differs(fill: FileFill, stored: _StoredFill) -> bool:
    """True if the file tells other figures than are stored."""
    now = (fill.unit_number, fill.gallons, fill.paid_cents, fill.currency)
    return now != (stored.unit_number, stored.gallons, stored.paid_cents, stored.currency) or (
        fill.has_time and utc_of_local(fill.local_time, stored.time_zone) != stored.bought_at
    )


def _to_match(fill: FileFill) -> ToMatch:
    return ToMatch(**{name: getattr(fill, name) for name in ToMatch._fields[:11]}, doubts=fill.doubts)


# --- Matching ----------------------------------------------------------------------------------------------------


class _FoundTruck(NamedTuple):
    unit_number: str
    vehicle_id: NotNull[UUID]
    fits_several: bool


_TRUCKS = Statement(
    _FoundTruck,
    """
    SELECT named.unit_number, coalesce(mapped.target_id, found.ids[1]) AS vehicle_id,
           mapped.target_id IS NULL AND cardinality(found.ids) > 1 AS fits_several
    FROM unnest(%(unit_numbers)s::text[]) AS named (unit_number)
    LEFT JOIN mappings mapped ON mapped.company_id = %(company_id)s AND mapped.kind = 'unit_number'
         AND mapped.value = named.unit_number
    CROSS JOIN LATERAL (SELECT ARRAY(SELECT id FROM vehicles WHERE company_id = %(company_id)s
        AND unit_number = named.unit_number AND retired_at IS NULL LIMIT 2) AS ids OFFSET 0) AS found
    WHERE mapped.target_id IS NOT NULL OR cardinality(found.ids) > 0
    """,
)


class _Tank(NamedTuple):
    id: UUID
    fuel_tank_capacity_gallons: float | None


_TANKS = Statement(_Tank, "SELECT id, fuel_tank_capacity_gallons FROM vehicles WHERE company_id = %s AND id = ANY(%s)")


class _FoundRoute(NamedTuple):
    number: int
    route_id: UUID
    is_within: bool
    """The truck was between the first stop and the last one; else it fueled a little before or after."""


_ROUTES = Statement(
    _FoundRoute,
    """
    SELECT asked.number, r.id AS route_id,
           asked.until >= r.arrived_at AND asked.since <= coalesce(closed.at, 'infinity') AS is_within
    FROM unnest(%(numbers)s::int[], %(vehicle_ids)s::uuid[], %(since)s::timestamptz[], %(until)s::timestamptz[])
         AS asked (number, vehicle_id, since, until)
    JOIN routes r ON r.company_id = %(company_id)s AND r.environment = %(environment)s
         AND r.vehicle_id = asked.vehicle_id AND r.scheduled_start <= asked.until + interval '3 days'
         AND r.scheduled_start >= asked.since - interval '60 days'
    CROSS JOIN LATERAL (SELECT CASE WHEN r.status = 'error' THEN r.updated_at ELSE r.completed_at END AS at) AS closed
    WHERE r.status IN ('planned', 'active', 'completed', 'error')
      AND r.arrived_at - %(slack)s::interval <= asked.until
      AND coalesce(closed.at, 'infinity') + %(slack)s::interval >= asked.since
    """,
)


def match_fills(
    connection: Connection, tenant: Tenant, fills: Sequence[ToMatch], stations: KnownStations, *, far_miles: float
) -> list[Matches]:
    """The matches of fills. Vehicles and stations that are given stay."""
    trucks = _trucks(connection, tenant, fills)
    first_times = [utc_of_local(fill.local_time, zone_of(fill.state, None)) for fill in fills]
    trails = _trails(connection, tenant, fills, trucks, first_times)
    found = []
    for number, fill in enumerate(fills):
        given = stations.by_id(fill.station_id)
        match = match_station(
            stations,
            code=fill.station_id if given is not None else fill.station_code,
            name=fill.location_name,
            city=fill.city,
            state=None if given is not None else fill.state,
            trail=trails[number],
        )
        zone = zone_of(fill.state, match.station.place if match.station is not None else None)
        found.append((match, zone, utc_of_local(fill.local_time, zone)))
    moved = [number for number, (_, _, at) in enumerate(found) if at != first_times[number]]
    for number, trail in zip(
        moved,
        _trails(
            connection,
            tenant,
            [fills[number] for number in moved],
            [trucks[number] for number in moved],
            [found[number][2] for number in moved],
        ),
        strict=True,
    ):
        trails[number] = trail
    routes = _routes(connection, tenant, fills, trucks, [at for _, _, at in found])
    tanks = {
        row.id: row.fuel_tank_capacity_gallons
        for row in _TANKS.all(connection, (tenant.company_id, list({one for one in trucks if one is not None})))
    }
    result = []
    for number, fill in enumerate(fills):
        match, zone, at = found[number]
        truck, (route, is_route_unclear) = trucks[number], routes[number]
        review = list(fill.doubts)
        if truck is None:
            review.append("unit")
        if fill.fuel == Fuel.UNKNOWN:
            review.append("fuel")
        compared = fill.fuel in (Fuel.TRACTOR, Fuel.UNKNOWN)
        if compared and is_route_unclear:
            review.append("route")
        if compared and match.station is None and route is not None:
            review.append("station")
        if fill.currency == "USD" and fill.gallons > 0 and not _is_price(fill):
            review = [one for one in review if one != AMOUNT_DOUBT] + ["price"]
        if fill.gallons < 0:
            review.append("reversal")
        miles = _miles(match.station, trails[number])
        result.append(
            Matches(
                at,
                zone,
                truck,
                match.station.station_id if match.station is not None else None,
                route if compared else None,
                0 if truck is None else match.score if match.score >= SURE_SCORE else 50,
                miles,
                review,
                _flags(fill, tanks.get(truck) if truck is not None else None, miles, far_miles),
            )
        )
    return result


def _trucks(connection: Connection, tenant: Tenant, fills: Sequence[ToMatch]) -> list[UUID | None]:
    named = sorted({fill.unit_number for fill in fills if fill.unit_number and fill.vehicle_id is None})
    rows = _TRUCKS.all(connection, {"company_id": tenant.company_id, "unit_numbers": named}) if named else []
    found = {row.unit_number: row.vehicle_id for row in rows if not row.fits_several}
    return [fill.vehicle_id or found.get(fill.unit_number or "") for fill in fills]


def _trails(
    connection: Connection,
    tenant: Tenant,
    fills: Sequence[ToMatch],
    trucks: Sequence[UUID | None],
    times: Sequence[datetime],
) -> list[list[Point]]:
    """The places of each fill's truck at that time. Empty where the file told only the day."""
    trails: list[list[Point]] = [[] for _ in fills]
    asked = [
        (number, truck, at)
        for number, (fill, truck, at) in enumerate(zip(fills, trucks, times, strict=True))
        if truck is not None and fill.has_time
    ]
    places = read_places_around(connection, tenant, [(truck, at) for _, truck, at in asked], TRUCK_WITHIN)
    for (number, _, _), trail in zip(asked, places, strict=True):
        trails[number] = trail
    return trails


def _routes(
    connection: Connection,
    tenant: Tenant,
    fills: Sequence[ToMatch],
    trucks: Sequence[UUID | None],
    times: Sequence[datetime],
) -> list[tuple[UUID | None, bool]]:
    """The route of each fill, and whether several fit. A route that the truck was on goes before one that it was near
    to. Of a fill without a time the whole day counts."""
    asked = [
        (number, truck, *((at, at) if fill.has_time else (at - timedelta(hours=12), at + timedelta(hours=12))))
        for number, (fill, truck, at) in enumerate(zip(fills, trucks, times, strict=True))
        if truck is not None
    ]
    candidates: dict[int, list[_FoundRoute]] = {}
    if asked:
        numbers, vehicle_ids, since, until = (list(column) for column in zip(*asked, strict=True))
        parameters = {
            **tenant._asdict(),
            "numbers": numbers,
            "vehicle_ids": vehicle_ids,
            "since": since,
            "until": until,
            "slack": ROUTE_SLACK,
        }
        for row in _ROUTES.all(connection, parameters):
            candidates.setdefault(row.number, []).append(row)
    found: list[tuple[UUID | None, bool]] = []
    for number in range(len(fills)):
        rows = candidates.get(number, [])
        best = [row for row in rows if row.is_within] or rows
        found.append((best[0].route_id, False) if len(best) == 1 else (None, len(best) > 1))
    return found


def _is_price(fill: ToMatch) -> bool:
    return LEAST_DOLLARS <= fill.paid_cents / 100 / fill.gallons <= MOST_DOLLARS_PER_GALLON


def _miles(station: KnownStation | None, trail: Sequence[Point]) -> float | None:
    if station is None or not trail:
        return None
    return round(min(great_circle_miles(station.place, place) for place in trail), 1)


def _flags(fill: ToMatch, capacity: float | None, miles: float | None, far_miles: float) -> list[str]:
    flags = []
    most = capacity * (1 + TANK_SLACK_SHARE) + TANK_SLACK_GALLONS if capacity is not None else None
    if fill.fuel == Fuel.TRACTOR and most is not None and fill.gallons > most:
        flags.append("tank")
    if miles is not None and miles > far_miles:
        flags.append("far")
    return flags


# --- Reversals ---------------------------------------------------------------------------------------------------


class _Paired(NamedTuple):
    id: UUID
    route_id: UUID | None


_PAIR = Statement(
    _Paired,
    """
    WITH back AS (
        SELECT id, profile, fuel, card_last_four, unit_number, gallons, paid_cents, bought_at,
               coalesce(transaction_number, '') AS number, coalesce(item, '') AS item,
               coalesce(location_name, '') AS place,
               row_number() OVER (PARTITION BY profile, item, card_last_four, unit_number, location_name, gallons,
                                  transaction_number ORDER BY bought_at, id) AS turn
        FROM fills WHERE company_id = %(company_id)s AND environment = %(environment)s
          AND 'reversal' = ANY(review) AND review <> '{}' AND counter_id IS NULL AND gallons < 0
    ), taken AS (
        SELECT back.id AS back_id, f.id, back.turn,
               dense_rank() OVER (PARTITION BY back.id ORDER BY (coalesce(f.transaction_number, '') = back.number) DESC,
                                  f.bought_at DESC, f.id) AS rank,
               count(*) FILTER (WHERE coalesce(f.transaction_number, '') = back.number AND back.number <> '')
                   OVER (PARTITION BY back.id) AS numbered,
               count(*) OVER (PARTITION BY back.id) AS fitting,
               coalesce(f.transaction_number, '') = back.number AND back.number <> '' AS is_numbered
        FROM back JOIN fills f ON f.company_id = %(company_id)s AND f.environment = %(environment)s
             AND f.bought_at <= back.bought_at + interval '1 day' AND f.bought_at >= back.bought_at - interval '60 days'
             AND f.gallons = -back.gallons AND f.paid_cents = -back.paid_cents AND f.profile = back.profile
             AND f.card_last_four IS NOT DISTINCT FROM back.card_last_four
             AND f.unit_number IS NOT DISTINCT FROM back.unit_number
             AND coalesce(f.item, '') = back.item AND coalesce(f.location_name, '') = back.place
             AND f.counter_id IS NULL
    ), pair AS (
        SELECT DISTINCT ON (id) back_id, id FROM taken
        WHERE CASE WHEN numbered > 0 THEN is_numbered AND rank = turn ELSE fitting = 1 END
        ORDER BY id, back_id
    )
    UPDATE fills f SET counter_id = CASE WHEN f.id = pair.id THEN pair.back_id ELSE pair.id END,
        review = CASE WHEN f.id = pair.id THEN f.review ELSE '{}' END,
        score = CASE WHEN f.id = pair.id THEN f.score ELSE 100 END
    FROM pair WHERE f.id IN (pair.id, pair.back_id)
    RETURNING f.id, f.route_id
    """,
)
"""A reversal takes back the fill of the same card, unit, place, item, gallons and amount: the one with its transaction
number, else the only one of the 60 days before. Among equals, one each."""


def find_truck(connection: Connection, company_id: UUID, unit_number: str) -> UUID | None:
    """The truck of a unit number, as fills are matched to it. None: there is none, or several."""
    rows = _TRUCKS.all(connection, {"company_id": company_id, "unit_numbers": [unit_number]})
    return rows[0].vehicle_id if len(rows) == 1 and not rows[0].fits_several else None

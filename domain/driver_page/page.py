"""Reads what the page of a driver's trip shows: the fuel stops ahead, the stops, what changed.

One statement finds the links of many tokens, and reads their trips."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from domain.accounts.tokens import hash_of_token
from domain.database.statements import Query, Statement
from domain.driver_page.links import EXPIRY, LINKED_ROUTE, DriverLink
from domain.driver_page.progress import mile_of_truck, miles_to
from domain.driver_page.shown_trip import (
    PlanChanges,
    ShownAnswer,
    ShownChoice,
    ShownFuelStop,
    ShownPlan,
    ShownPriceChange,
    ShownStop,
    ShownTown,
    ShownTrip,
    ShownWayOut,
    TripState,
)
from domain.lifecycle import SHOWS_PLAN, AnswerKind, RouteStatus
from domain.planning.choice_costs import COUNTS
from domain.planning.coarse_ways import unpack_way
from domain.planning.next_fuel_stop import Milestone, index_of_next_fuel_stop
from domain.roads import Point
from domain.routes.plans.stored_choices import STATUS_NOW
from domain.routes.reading.on_their_way import NEXT_STOP


class _Facts(msgspec.Struct, rename="camel", frozen=True):
    heading: str | None = None
    road: str | None = None
    exit: str | None = None
    town: ShownTown | None = None
    is_on_left: bool | None = None
    off_road_miles: float = 0.0
    way_out: ShownWayOut | None = None
    price_change: ShownPriceChange | None = None


class _DriverFacts(msgspec.Struct, rename="camel", frozen=True):
    low_fuel: bool = False
    fuel_stops: list[_Facts] = []


class _FuelStop(msgspec.Struct, rename="camel", frozen=True):
    sequence: int
    name: str
    address: str | None
    latitude: float
    longitude: float
    miles_from_origin: float
    gallons_to_fill: float
    price_per_gallon: float
    total_cost: float
    arrival_fuel_percent: int
    estimated_arrival: datetime | None = None
    fill_to_percent: int | None = None

    @property
    def place(self) -> Point:
        return Point(self.latitude, self.longitude)


class _Plan(msgspec.Struct, rename="camel", frozen=True):
    total_distance_miles: float
    total_gallons: float
    total_cost: float
    stops: list[_FuelStop]


class _Window(msgspec.Struct, frozen=True):
    start: datetime | None = None
    end: datetime | None = None


class _Stop(msgspec.Struct, rename="camel", frozen=True):
    name: str
    latitude: float
    longitude: float
    address: str | None = None
    arrival_window: _Window = _Window()


class _Entry(msgspec.Struct, rename="camel", frozen=True):
    stop: int
    mile: float | None
    planned_arrival: datetime | None = None


_read_plan = msgspec.json.Decoder(_Plan).decode
_read_facts = msgspec.json.Decoder(_DriverFacts).decode
_read_stops = msgspec.json.Decoder(list[_Stop]).decode
_read_answers = msgspec.json.Decoder(dict[str, ShownAnswer]).decode
_read_choices = msgspec.json.Decoder(list[ShownChoice]).decode
_read_timeline = msgspec.json.Decoder(list[_Entry]).decode


class _Row(NamedTuple):
    token_hash: bytes
    link_id: UUID
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID
    expires_at: datetime
    status: str
    name: str
    unit_number: str | None
    company: str
    time_zone: str
    language: str | None
    map_link: str
    tells_prices: bool
    ended_at: datetime
    stops: str
    reached: int
    is_changing: bool
    is_reviewed: bool
    is_infeasible: bool
    plan_id: UUID | None
    generated_at: datetime | None
    document: str | None
    timeline: str | None
    driver_facts: str | None
    coarse_way: bytes | None
    cause: str | None
    fuel_percent: float | None
    fuel_at: datetime | None
    before: str | None
    truck_at: datetime | None
    latitude: float | None
    longitude: float | None
    passed: int
    station_ids: list[str] | None
    answers: int
    newest_answers: str | None
    choices: str | None
    allowance_cents: int


_TRIPS = Statement(
    _Row,
    f"""
    SELECT l.token_hash, l.id AS link_id, l.company_id, l.environment, l.route_id, l.driver_id,
           {EXPIRY} AS expires_at, r.status, coalesce(nullif(r.reference, ''), r.external_id) AS name,
           v.unit_number, c.name AS company, c.time_zone, d.language, c.map_link,
           c.prices_for_drivers AS tells_prices,
           coalesce(r.completed_at, r.updated_at) AS ended_at, r.stops::text AS stops, next.number AS reached,
           r.replan IS NOT NULL AS is_changing, r.status = 'planned' AND r.review_at IS NOT NULL AS is_reviewed,
           r.status = 'error' AND last.id IS NOT NULL AS is_infeasible,
           p.id AS plan_id, p.generated_at, p.document::text AS document, p.timeline::text AS timeline,
           p.driver_facts::text AS driver_facts, p.coarse_way, p.cause->>'kind' AS cause, p.fuel_percent, p.fuel_at,
           (SELECT b.document::text FROM plans b JOIN messages m ON m.plan_id = b.id
            WHERE b.route_id = r.id AND b.company_id = r.company_id AND b.id < p.id AND b.document IS NOT NULL
              AND m.status IN ('sent', 'suppressed')
            ORDER BY b.id DESC LIMIT 1) AS before,
           t.newest_at AS truck_at, t.latitude, t.longitude,
           CASE WHEN t.watch_at IS NOT NULL THEN t.fuel_stops_passed ELSE 0 END AS passed,
           p.station_ids, said.answers, said.newest::text AS newest_answers,
           menu.choices::text AS choices, menu.allowance_cents
    FROM {LINKED_ROUTE}
    JOIN companies c ON c.id = r.company_id
    CROSS JOIN LATERAL (SELECT {NEXT_STOP} AS number OFFSET 0) AS next
    LEFT JOIN drivers d ON d.id = l.driver_id AND d.company_id = l.company_id
    LEFT JOIN vehicles v ON v.id = r.vehicle_id AND v.company_id = r.company_id
    LEFT JOIN plans p ON p.id = CASE WHEN r.correction_id IS NULL THEN r.plan_id ELSE r.correction_id END
        AND p.company_id = r.company_id AND p.document IS NOT NULL AND r.status = ANY(%(shows_plan)s)
    LEFT JOIN plans last ON last.id = r.plan_id AND last.company_id = r.company_id AND last.document IS NULL
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
        AND t.company_id = r.company_id AND r.status IN ('planned', 'active')
    CROSS JOIN LATERAL (
        SELECT count(*) AS answers, jsonb_object_agg(a.station_id, jsonb_build_object(
                   'kind', a.kind, 'reason', a.reason, 'at', a.answered_at,
                   'number', CASE WHEN a.plan_id = p.id THEN a.sequence END) ORDER BY a.id)
               FILTER (WHERE a.station_id IS NOT NULL AND a.driver_id = l.driver_id AND NOT a.is_late) AS newest
        FROM driver_answers a WHERE a.route_id = r.id) AS said
    CROSS JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_object(
                   'id', c.id, 'kind', c.kind, 'status', {STATUS_NOW}, 'extra_cents', c.extra_cents,
                   'fuel_stops', jsonb_array_length(c.document->'stops'), 'name', c.document->'stops'->0->'name',
                   'mile', c.document->'stops'->0->'milesFromOrigin', 'parking_spaces', s.parking_spaces,
                   'showers', s.showers) ORDER BY c.place)
                   FILTER (WHERE c.plan_id = r.plan_id AND r.status = 'active' AND r.correction_id IS NULL) AS choices,
               greatest(round(100 * max(o.driver_allowance))::bigint - coalesce(
                   sum(greatest(c.extra_cents, 0)) FILTER (WHERE {COUNTS}), 0)::bigint, 0) AS allowance_cents
        FROM companies o LEFT JOIN plan_choices c ON c.route_id = r.id
        LEFT JOIN stations s ON s.station_id = c.station_ids[1]
        WHERE o.id = r.company_id) AS menu
    WHERE l.token_hash = ANY(%(hashes)s) AND {EXPIRY} > %(now)s
    """,
)


def ask_trips(tokens: Sequence[str], *, hours: float, now: datetime) -> Query[list[ShownTrip | None]]:
    """The trip that each token opens, in order. None for one that is unknown, has expired, or belongs to a driver who
    has the trip no more: these cases cannot be told apart. `hours`: how long a link works after the end of its trip."""
    hashes = [hash_of_token(token) for token in tokens]

    def read(rows: list[_Row]) -> list[ShownTrip | None]:
        shown = {row.token_hash: _trip_of(row) for row in rows}
        return [shown.get(one) for one in hashes]

    return Query(
        _TRIPS,
        {"hashes": hashes, "after_end": timedelta(hours=hours), "now": now, "shows_plan": list(SHOWS_PLAN)},
        read,
    )


def _trip_of(row: _Row) -> ShownTrip:
    state = _state_of(row)
    entries = {entry.stop: entry for entry in _read_timeline(row.timeline or "[]")}
    pushed = _read_stops(row.stops)
    plan = _plan_of(row, pushed, entries)
    return ShownTrip(
        link=DriverLink(row.link_id, row.company_id, row.environment, row.route_id, row.driver_id, row.expires_at),
        state=state,
        name=row.name,
        unit_number=row.unit_number,
        company=row.company,
        time_zone=row.time_zone,
        language=row.language,
        map_link=row.map_link,
        tells_prices=row.tells_prices,
        ended_at=row.ended_at if state in ("completed", "canceled", "ended") else None,
        stops=tuple(_stop_of(stop, number, entries.get(number), row.reached) for number, stop in enumerate(pushed)),
        plan=plan,
        is_changing=state == "underway" and (row.is_changing or (row.is_reviewed and _is_refused(plan))),
        truck_at=row.truck_at if _place_of(row) is not None else None,
        fuel_percent=row.fuel_percent if row.fuel_at is not None else None,
        fuel_at=row.fuel_at,
        answers=row.answers,
    )


def _is_refused(plan: ShownPlan | None) -> bool:
    """True if the driver has refused the next fuel stop since the plan was made."""
    answer = plan.fuel_stops[0].answer if plan is not None and plan.fuel_stops else None
    return plan is not None and answer is not None and answer.kind is AnswerKind.REFUSED and answer.at > plan.made_at


def _state_of(row: _Row) -> TripState:
    match row.status:
        case RouteStatus.COMPLETED:
            return "completed"
        case RouteStatus.CANCELED:
            return "canceled"
        case RouteStatus.ERROR:
            return "infeasible" if row.is_infeasible else "ended"
    return "underway" if row.plan_id is not None else "waiting"


def _stop_of(stop: _Stop, number: int, entry: _Entry | None, reached: int) -> ShownStop:
    return ShownStop(
        stop.name,
        stop.address,
        Point(stop.latitude, stop.longitude),
        stop.arrival_window.start,
        stop.arrival_window.end,
        entry.planned_arrival if entry is not None else None,
        number < reached,
    )


def _plan_of(row: _Row, stops: Sequence[_Stop], entries: dict[int, _Entry]) -> ShownPlan | None:
    if row.plan_id is None or row.document is None or row.generated_at is None:
        return None
    plan = _read_plan(row.document)
    facts = _read_facts(row.driver_facts) if row.driver_facts is not None else _DriverFacts()
    answers = _answers_to(row, plan)
    first, mile = _next_fuel_stop(row, plan, stops, entries, passed=max(row.passed, _fueled(answers, row.generated_at)))
    place = _place_of(row)
    told = [*facts.fuel_stops, *[_Facts()] * (len(plan.stops) - len(facts.fuel_stops))]
    last = entries.get(len(stops) - 1)
    return ShownPlan(
        id=row.plan_id,
        made_at=row.generated_at,
        fuel_stops=tuple(
            _fuel_stop_of(stop, fact, miles_to(stop.miles_from_origin, mile, place, stop.place), answer)
            for stop, fact, answer in zip(plan.stops[first:], told[first:], answers[first:], strict=False)
        ),
        behind=first,
        ends_at_mile=plan.total_distance_miles,
        road_miles=max(last.mile or 0.0 if last is not None else 0.0, plan.total_distance_miles),
        total_gallons=plan.total_gallons,
        total_cost=plan.total_cost,
        is_low_on_fuel=facts.low_fuel,
        choices=tuple(_read_choices(row.choices)) if row.choices is not None and not first else (),
        allowance_cents=row.allowance_cents,
        changes=_changes(_read_plan(row.before), plan, row.cause) if row.before is not None else None,
    )


def _place_of(row: _Row) -> Point | None:
    return Point(row.latitude, row.longitude) if row.latitude is not None and row.longitude is not None else None


def _next_fuel_stop(
    row: _Row, plan: _Plan, stops: Sequence[_Stop], entries: dict[int, _Entry], *, passed: int
) -> tuple[int, float | None]:
    """The index of the next fuel stop, the number of all where none is ahead; and the mile of the truck."""
    place, reached_mile = _place_of(row), getattr(entries.get(row.reached - 1), "mile", None) or 0.0
    mile = None
    if row.coarse_way is not None and place is not None:
        mile = mile_of_truck(unpack_way(row.coarse_way), place, reached_mile=reached_mile)
    ahead = stops[row.reached] if row.reached < len(stops) else None
    if ahead is None:
        return len(plan.stops), mile
    next_mile = getattr(entries.get(row.reached), "mile", None)
    index = index_of_next_fuel_stop(
        place,
        [Milestone(one.place, one.miles_from_origin) for one in plan.stops],
        next_stop=Milestone(Point(ahead.latitude, ahead.longitude), next_mile),
        reached_mile=reached_mile,
        passed=passed,
    )
    return (len(plan.stops) if index is None else index), mile


def _answers_to(row: _Row, plan: _Plan) -> list[ShownAnswer | None]:
    """The driver's newest answer to each fuel stop of the plan."""
    newest = _read_answers(row.newest_answers) if row.newest_answers is not None else {}
    station_ids = row.station_ids or []
    answers = [_answer_to(number, station_ids, newest) for number in range(len(station_ids))]
    return answers + [None] * (len(plan.stops) - len(station_ids))


def _answer_to(number: int, station_ids: Sequence[str], newest: Mapping[str, ShownAnswer]) -> ShownAnswer | None:
    """A road there and back may pass a station twice. A refusal is of the station, other answers are to one visit: that
    of their number in this plan, or else the first one."""
    station_id = station_ids[number]
    answer = newest.get(station_id)
    if answer is None or answer.kind is AnswerKind.REFUSED:
        return answer
    visit = answer.number if answer.number is not None else station_ids.index(station_id)
    return answer if visit == number else None


def _fueled(answers: Sequence[ShownAnswer | None], made_at: datetime) -> int:
    """Number of fuel stops up to the last one where the driver says that he has fueled since the plan was made. A plan
    that was made later knows that fuel, and wants more."""
    fueled = [
        number
        for number, one in enumerate(answers, 1)
        if one is not None and one.kind is AnswerKind.FUELED and one.at >= made_at
    ]
    return max(fueled, default=0)


def _fuel_stop_of(
    stop: _FuelStop, facts: _Facts, miles_away: float | None, answer: ShownAnswer | None
) -> ShownFuelStop:
    return ShownFuelStop(
        number=stop.sequence,
        name=stop.name,
        address=stop.address,
        place=stop.place,
        mile=stop.miles_from_origin,
        miles_away=miles_away,
        gallons=stop.gallons_to_fill,
        fill_to_percent=stop.fill_to_percent,
        price_per_gallon=stop.price_per_gallon,
        cost=stop.total_cost,
        arrival_fuel_percent=stop.arrival_fuel_percent,
        arrival=stop.estimated_arrival,
        heading=facts.heading,
        road=facts.road,
        exit=facts.exit,
        town=facts.town,
        is_on_left=facts.is_on_left,
        off_road_miles=facts.off_road_miles,
        way_out=facts.way_out,
        price_change=facts.price_change,
        answer=answer,
    )


def _changes(before: _Plan, after: _Plan, cause: str | None) -> PlanChanges:
    old = {(stop.latitude, stop.longitude): stop for stop in before.stops}
    new = {(stop.latitude, stop.longitude): stop for stop in after.stops}
    pairs = [(old[place], stop) for place, stop in new.items() if place in old]
    return PlanChanges(
        cause,
        added=tuple(stop.name for place, stop in new.items() if place not in old),
        dropped=tuple(stop.name for place, stop in old.items() if place not in new),
        levels=tuple(
            (stop.name, one.fill_to_percent, stop.fill_to_percent)
            for one, stop in pairs
            if one.fill_to_percent is not None
            and stop.fill_to_percent is not None
            and one.fill_to_percent != stop.fill_to_percent
        ),
    )

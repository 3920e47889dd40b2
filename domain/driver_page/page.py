"""Makes the values that the page of a driver's trip shows, from what is read of it: the fuel stops ahead, the stops,
what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import zip_longest
from typing import Any

import msgspec

from domain.database.statements import Query
from domain.documents import FuelStopDocument, StopDocument
from domain.driver_page.links import DriverLink
from domain.driver_page.progress import Course
from domain.driver_page.shown_trip import (
    PlanChanges,
    ShownAnswer,
    ShownChoice,
    ShownFuelStop,
    ShownFuelStopBehind,
    ShownPlan,
    ShownPriceChange,
    ShownStop,
    ShownTown,
    ShownTrip,
    ShownWayOut,
    TripState,
)
from domain.driver_page.trips_of_links import TRIPS_OF_LINKS, VERSIONS_OF_TRIPS, TripNow, TripOfLink
from domain.lifecycle import SHOWS_PLAN, AnswerKind, RouteStatus
from domain.planning.coarse_ways import unpack_way
from domain.roads.sphere import stop_point
from domain.routes.plans.planned_stops import PlanMilestones
from domain.telematics.fixes_to_visits import FuelVisit


class _Facts(msgspec.Struct, rename="camel", frozen=True):
    heading: str | None = None
    road: str | None = None
    exit: str | None = None
    town: ShownTown | None = None
    is_on_left: bool | None = None
    off_road_miles: float = 0.0
    way_out: ShownWayOut | None = None
    price_change: ShownPriceChange | None = None
    hours: str | None = None
    priced_at: datetime | None = None


class _DriverFacts(msgspec.Struct, rename="camel", frozen=True):
    low_fuel: bool = False
    fuel_stops: list[_Facts] = []


_read_facts = msgspec.json.Decoder(_DriverFacts).decode
_read_answers = msgspec.json.Decoder(dict[str, ShownAnswer]).decode
_read_choices = msgspec.json.Decoder(list[ShownChoice]).decode


@dataclass(frozen=True)
class OpenedTrip:
    """The trip that a token opens, as it is stored at that moment."""

    row: TripOfLink

    @property
    def link(self) -> DriverLink:
        row = self.row
        return DriverLink(row.link_id, row.company_id, row.environment, row.route_id, row.driver_id, row.expires_at)

    @cached_property
    def answers(self) -> Sequence[ShownAnswer | None]:
        """The driver's newest answer to each fuel stop."""
        return _answers_to(self.row)

    @cached_property
    def fuel_visits(self) -> Sequence[FuelVisit | None]:
        """The visit of each fuel stop."""
        return _visits_of(self.row)

    @cached_property
    def course(self) -> Course:
        row = self.row
        fueled = _fueled(self.answers, row.generated_at) if row.generated_at is not None else 0
        left = [number for number, visit in enumerate(self.fuel_visits, 1) if visit and visit["departedAt"]]
        passed = max(row.fuel_stops_passed, fueled, *left)
        way = unpack_way(row.coarse_way) if row.coarse_way is not None else None
        return Course(PlanMilestones.of(row._replace(fuel_stops_passed=passed)), way)

    def shown(self) -> ShownTrip:
        """The values on its page."""
        return _trip_of(self)


def ask_trips(hashes: Sequence[bytes], *, hours: float, now: datetime) -> Query[list[OpenedTrip | None]]:
    """The trip that each token of these hashes opens, in order. None for one that is unknown, has expired, or belongs
    to a driver who has the trip no more: these cases cannot be told apart. `hours`: how long a link works after the end
    of its trip."""

    def read(rows: list[TripOfLink]) -> list[OpenedTrip | None]:
        opened = {row.token_hash: OpenedTrip(row) for row in rows}
        return [opened.get(one) for one in hashes]

    return Query(TRIPS_OF_LINKS, _asked(hashes, hours, now) | {"shows_plan": list(SHOWS_PLAN)}, read)


def ask_trips_now(hashes: Sequence[bytes], *, hours: float, now: datetime) -> Query[list[TripNow | None]]:
    """The version of the trip and the truck of each token that `ask_trips` would find, in order."""

    def read(rows: list[TripNow]) -> list[TripNow | None]:
        opened = {row.token_hash: row for row in rows}
        return [opened.get(one) for one in hashes]

    return Query(VERSIONS_OF_TRIPS, _asked(hashes, hours, now), read)


def _asked(hashes: Sequence[bytes], hours: float, now: datetime) -> dict[str, Any]:
    return {"hashes": list(hashes), "after_end": timedelta(hours=hours), "now": now}


def _trip_of(trip: OpenedTrip) -> ShownTrip:
    row, state, plan = trip.row, _state_of(trip.row), _plan_of(trip)
    arrivals = {entry["stop"]: entry["plannedArrival"] for entry in row.timeline}
    return ShownTrip(
        link=trip.link,
        state=state,
        name=row.name,
        unit_number=row.unit_number,
        company=row.company,
        time_zone=row.time_zone,
        language=row.language,
        map_link=row.map_link,
        tells_prices=row.tells_prices,
        ended_at=row.ended_at if state in ("completed", "canceled", "ended") else None,
        stops=tuple(
            _stop_of(stop, arrivals.get(number), is_reached=number < row.reached)
            for number, stop in enumerate(row.stops)
        ),
        plan=plan,
        is_changing=state == "underway" and (row.is_changing or (row.is_reviewed and _is_refused(plan))),
        truck_at=row.truck_at if row.place is not None else None,
        fuel_percent=row.fuel_percent if row.fuel_at is not None else None,
        fuel_at=row.fuel_at,
        answers=row.answers,
    )


def _is_refused(plan: ShownPlan | None) -> bool:
    """True if the driver has refused the next fuel stop since the plan was made."""
    answer = plan.fuel_stops[0].answer if plan is not None and plan.fuel_stops else None
    return plan is not None and answer is not None and answer.kind is AnswerKind.REFUSED and answer.at > plan.made_at


def _state_of(row: TripOfLink) -> TripState:
    match row.status:
        case RouteStatus.COMPLETED:
            return "completed"
        case RouteStatus.CANCELED:
            return "canceled"
        case RouteStatus.ERROR:
            return "infeasible" if row.is_infeasible else "ended"
    return "underway" if row.plan_id is not None else "waiting"


def _stop_of(stop: StopDocument, planned_arrival: str | None, *, is_reached: bool) -> ShownStop:
    window = stop.get("arrivalWindow", {})
    return ShownStop(
        stop["name"],
        stop.get("address"),
        stop_point(stop),
        _moment(window.get("start")),
        _moment(window.get("end")),
        _moment(planned_arrival),
        is_reached,
    )


def _moment(text: str | None) -> datetime | None:
    return msgspec.convert(text, datetime) if text is not None else None


def _plan_of(trip: OpenedTrip) -> ShownPlan | None:
    row = trip.row
    if row.plan_id is None or row.document is None or row.generated_at is None:
        return None
    plan, stops = row.document, row.fuel_stops
    facts = _read_facts(row.driver_facts) if row.driver_facts is not None else _DriverFacts()
    told = [*facts.fuel_stops, *[_Facts()] * (len(stops) - len(facts.fuel_stops))]
    first = trip.course.behind(row.place)
    miles_away = trip.course.miles_away(row.place, behind=first)
    return ShownPlan(
        id=row.plan_id,
        made_at=row.generated_at,
        fuel_stops=tuple(
            _fuel_stop_of(stop, fact, miles, answer, row.generated_at)
            for stop, fact, miles, answer in zip(
                stops[first:], told[first:], miles_away, trip.answers[first:], strict=False
            )
        ),
        behind=tuple(
            ShownFuelStopBehind(stop["name"], is_reached=visit is not None and visit["arrivedAt"] is not None)
            for stop, visit in zip(stops[:first], trip.fuel_visits[:first], strict=True)
        ),
        ends_at_mile=plan["totalDistanceMiles"],
        road_miles=max(row.mile_of(len(row.stops) - 1) or 0.0, plan["totalDistanceMiles"]),
        total_gallons=plan["totalGallons"],
        total_cost=plan["totalCost"],
        is_low_on_fuel=facts.low_fuel,
        choices=tuple(_read_choices(row.choices)) if row.choices is not None and not first else (),
        allowance_cents=row.allowance_cents,
        changes=_changes(row.before["stops"], stops, row.cause) if row.before is not None else None,
    )


def _answers_to(row: TripOfLink) -> list[ShownAnswer | None]:
    """The driver's newest answer to each fuel stop of the plan."""
    newest = _read_answers(row.newest_answers) if row.newest_answers is not None else {}
    station_ids = row.station_ids or []
    answers = [_answer_to(number, station_ids, newest) for number in range(len(station_ids))]
    return answers + [None] * (len(row.fuel_stops) - len(station_ids))


def _answer_to(number: int, station_ids: Sequence[str], newest: Mapping[str, ShownAnswer]) -> ShownAnswer | None:
    """A road there and back may pass a station twice. A refusal is of the station, other answers are to one visit: that
    of their number in this plan, or else the first one."""
    station_id = station_ids[number]
    answer = newest.get(station_id)
    if answer is None or answer.kind is AnswerKind.REFUSED:
        return answer
    visit = answer.number if answer.number is not None else station_ids.index(station_id)
    return answer if visit == number else None


def _visits_of(row: TripOfLink) -> list[FuelVisit | None]:
    """The visit of each fuel stop of the plan. A worker of an older release leaves the visits as the plan before had
    them, so they may be of other places."""
    found = zip_longest(row.fuel_stops, (row.fuel_visits or [])[: len(row.fuel_stops)])
    return [
        visit if visit and (visit["latitude"], visit["longitude"]) == stop_point(stop) else None
        for stop, visit in found
    ]


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
    stop: FuelStopDocument, facts: _Facts, miles_away: float | None, answer: ShownAnswer | None, made_at: datetime
) -> ShownFuelStop:
    return ShownFuelStop(
        number=stop["sequence"],
        name=stop["name"],
        address=stop["address"],
        place=stop_point(stop),
        mile=stop["milesFromOrigin"],
        miles_away=miles_away,
        gallons=stop["gallonsToFill"],
        fill_to_percent=stop.get("fillToPercent"),
        price_per_gallon=stop["pricePerGallon"],
        cost=stop["totalCost"],
        arrival_fuel_percent=stop["arrivalFuelPercent"],
        arrival=_moment(stop.get("estimatedArrival")),
        heading=facts.heading,
        road=facts.road,
        exit=facts.exit,
        town=facts.town,
        is_on_left=facts.is_on_left,
        off_road_miles=facts.off_road_miles,
        way_out=facts.way_out,
        price_change=facts.price_change,
        hours=facts.hours,
        priced_at=facts.priced_at or made_at,
        answer=answer,
    )


def _changes(before: Sequence[FuelStopDocument], after: Sequence[FuelStopDocument], cause: str | None) -> PlanChanges:
    old, new = ({stop_point(stop): stop for stop in stops} for stops in (before, after))
    levels = [
        (stop["name"], old[place].get("fillToPercent"), stop.get("fillToPercent"))
        for place, stop in new.items()
        if place in old
    ]
    return PlanChanges(
        cause,
        added=tuple(stop["name"] for place, stop in new.items() if place not in old),
        dropped=tuple(stop["name"] for place, stop in old.items() if place not in new),
        levels=tuple(
            (name, was, now) for name, was, now in levels if was is not None and now is not None and was != now
        ),
    )

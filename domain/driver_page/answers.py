"""Takes the answers of drivers to the fuel stops of their plans, and does what follows from them.

An answer is kept whatever it says; the first one with a key counts, and the same one again changes nothing, nor does
one with another key that says the same within a minute. It is about a station, so it means the same where the driver
has another plan by now: a stop that he refuses is left out of the plans of his route, and if his present plan stops
there, a new one is made (`routes/plans/closed_stations.py`). An answer after the trip is kept as late, and changes
nothing; so is one that a phone kept while the driver said something else of the station on another phone.

A station that two drivers of a company find closed is closed for the company. What a driver says of a purchase decides
nothing by itself: it is shown beside the gauge and the card's fill."""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from domain.audit.entries import Actor
from domain.clock import later
from domain.database.connections import CLOSURE_LOCKS, Connection
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.documents import FuelPlanDocument, FuelStopDocument
from domain.driver_page.given_answers import GivenAnswer, ImpossibleAnswer, believed_time
from domain.driver_page.links import DriverLink
from domain.ids import new_id
from domain.languages.words import text_to_say
from domain.lifecycle import AnswerKind, Environment, RefusalReason, RouteStatus
from domain.roads import Point
from domain.routes.plans.closed_stations import make_new_plans
from domain.routes.plans.replans import correction_seen
from domain.stations import closures
from domain.stations.places import UnknownStation

MOST_ANSWERS_OF_TRIP = 200
"""Most answers that are kept of one trip."""

CLOSED_FOR = timedelta(hours=24)
"""A station that drivers find closed is closed for this long."""

_LEFT_OUT_FOR = {
    RefusalReason.CLOSED: CLOSED_FOR,
    RefusalReason.QUEUE: timedelta(hours=6),
    RefusalReason.NO_PARKING: timedelta(hours=12),
    RefusalReason.NO_TIME: timedelta(hours=12),
    RefusalReason.OUT_OF_NETWORK: timedelta(days=366),
    RefusalReason.OTHER: timedelta(hours=12),
}
"""Time for which plans of the route leave a refused station out, from the planned arrival there on."""

_OF_NO_TRIP = text_to_say("That plan is not of this trip: load the page again.")

SAME_WITHIN = timedelta(minutes=1)
"""A driver on a slow network may give an answer again before he sees that it was taken. Within this time it is one."""

TWO_DRIVERS = Actor("Fuelroute", "two drivers found it closed")

_LONGEST_ON_ITS_WAY = timedelta(minutes=1)
"""An answer may take this long on a slow network. It seems to be given that much later, and so later than what the
driver says meanwhile on the same phone."""

_TRUCK_IS_THERE_FOR = timedelta(minutes=15)
"""The longest time between an answer and a fix that still tells where the driver was."""


class TakenAnswer(NamedTuple):
    """The outcome of an answer.

    - `taken`: it is stored, and what follows from it is under way.
    - `known`: it was stored before.
    - `late`: it is stored, and changes nothing, since the trip is over, or the driver has said something else since.
    """

    outcome: Literal["taken", "known", "late"]
    makes_new_plan: bool = False
    """True if a new plan is being made because of it."""


class _Answered(NamedTuple):
    """The route that is answered, and the plan."""

    status: str
    driver_id: UUID | None
    is_of_present_input: NotNull[bool]
    is_correction: bool | None
    """True for a plan of which the message is not out yet."""
    document: FuelPlanDocument | None
    generated_at: datetime
    station_id: str | None
    newest_at: datetime | None
    latitude: float | None
    longitude: float | None
    answers: NotNull[int]

    def stop(self, sequence: int) -> FuelStopDocument:
        """The fuel stop of that number. Raises ImpossibleAnswer if the plan has none."""
        stops = self.document["stops"] if self.document is not None else []
        if sequence >= len(stops):
            raise ImpossibleAnswer(text_to_say("The plan has no such fuel stop: load the page again."))
        return stops[sequence]

    def place_of_truck(self, link: DriverLink, at: datetime) -> Point | None:
        """The truck's last place; None where it was there at another time. The sandbox simulates time. After the trip
        another driver may have the truck."""
        if self.newest_at is None or self.latitude is None or self.longitude is None:
            return None
        is_then = abs(self.newest_at - at) <= _TRUCK_IS_THERE_FOR or link.environment != Environment.LIVE
        return Point(self.latitude, self.longitude) if is_then else None

    def is_over_for(self, link: DriverLink) -> bool:
        is_on_its_way = self.status in (RouteStatus.PLANNED, RouteStatus.ACTIVE)
        return not (is_on_its_way and self.is_of_present_input and self.driver_id == link.driver_id)


_SAYS = ("plan_id", "sequence", "kind", "reason", "gallons", "fill_percent", "price_per_gallon")

_LOCK_ROUTE = Scalar(
    UUID,
    "SELECT id FROM routes WHERE company_id = %(company_id)s AND environment = %(environment)s AND id = %(route_id)s"
    " FOR UPDATE",
)
_LOCK_LINK = Scalar(UUID, "SELECT id FROM driver_links WHERE company_id = %s AND id = %s FOR KEY SHARE")
"""An erasure deletes a driver's links, then his answers. So it waits for an answer under way, and finds it."""
_ANSWERED = Statement(
    _Answered,
    """
    SELECT r.status, r.driver_id, p.revision = r.revision AS is_of_present_input,
           r.correction_id = p.id AS is_correction, p.document, p.generated_at,
           coalesce(
               p.station_ids[%(sequence)s::int + 1],
               (SELECT s.station_id FROM stations s WHERE p.station_ids IS NULL
                  AND s.latitude = (p.document->'stops'->%(sequence)s::int->>'latitude')::float
                  AND s.longitude = (p.document->'stops'->%(sequence)s::int->>'longitude')::float
                ORDER BY s.station_id LIMIT 1)) AS station_id,
           t.newest_at, t.latitude, t.longitude,
           (SELECT count(*) FROM driver_answers a WHERE a.route_id = r.id) AS answers
    FROM routes r JOIN plans p ON p.id = %(plan_id)s AND p.route_id = r.id
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.company_id = %(company_id)s AND r.environment = %(environment)s AND r.id = %(route_id)s
    """,
)
_KNOWN = Scalar(
    UUID,
    "SELECT id FROM driver_answers WHERE company_id = %s AND route_id = %s AND key = %s LIMIT 1",
)
_SAID_JUST_NOW = Scalar(
    UUID,
    """
    SELECT id FROM (
        SELECT * FROM driver_answers WHERE company_id = %(company_id)s AND route_id = %(route_id)s
          AND driver_id = %(driver_id)s AND plan_id = %(plan_id)s AND sequence = %(sequence)s
        ORDER BY answered_at DESC, id DESC LIMIT 1) AS newest
    WHERE answered_at > %(since)s AND is_late = %(is_late)s AND coalesce(told_at > %(told_since)s::timestamptz, true)
      AND (kind, reason, gallons, fill_percent, price_per_gallon) IS NOT DISTINCT FROM
          (%(kind)s::text, %(reason)s::text, %(gallons)s::float, %(fill_percent)s::float, %(price_per_gallon)s::float)
    """,
)
_STORE = Scalar(
    UUID,
    """
    INSERT INTO driver_answers (id, company_id, environment, route_id, driver_id, plan_id, sequence, key, kind, reason,
        station_id, place, answered_at, told_at, is_late, latitude, longitude, gallons, fill_percent, price_per_gallon,
        left_out_until)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    RETURNING id
    """,
)
_SAID_OTHERWISE_SINCE = Scalar(
    UUID,
    "SELECT id FROM driver_answers WHERE company_id = %s AND route_id = %s AND driver_id = %s AND station_id = %s"
    " AND NOT is_late AND kind <> %s AND least(told_at, answered_at) > %s LIMIT 1",
)
"""A phone whose clock is fast gives no answer later than it came."""
_LIFT_REFUSALS = Scalar(
    UUID,
    "UPDATE driver_answers SET left_out_until = NULL WHERE company_id = %s AND route_id = %s AND station_id = %s"
    " AND left_out_until IS NOT NULL RETURNING id",
)
_LOCK_FINDS = Command(f"SELECT FROM pg_advisory_xact_lock({CLOSURE_LOCKS}, hashtext(%s))")
"""Two drivers who find a station closed at the same moment come one after the other, so that the second sees the
first's answer."""
_OTHER_DRIVER_FOUND_IT_CLOSED = Scalar(
    UUID,
    "SELECT id FROM driver_answers WHERE company_id = %s AND environment = 'live' AND answered_at > %s"
    " AND station_id = %s AND reason = 'closed' AND driver_id <> %s AND left_out_until IS NOT NULL LIMIT 1",
)


def take_answer(connection: Connection, link: DriverLink, given: GivenAnswer, *, now: datetime) -> TakenAnswer:
    """Stores the answer of the link's driver to a fuel stop of the link's trip, and does what follows. Raises
    ImpossibleAnswer for one that cannot be to a plan of this trip, and for more than `MOST_ANSWERS_OF_TRIP`."""
    which = {
        "company_id": link.company_id,
        "environment": link.environment,
        "route_id": link.route_id,
        "plan_id": given.plan_id,
        "sequence": given.sequence,
    }
    _LOCK_ROUTE.first(connection, which)
    if _LOCK_LINK.first(connection, (link.company_id, link.id)) is None:
        raise ImpossibleAnswer(_OF_NO_TRIP)
    if _KNOWN.first(connection, (link.company_id, link.route_id, given.key)) is not None:
        return TakenAnswer("known")
    answered = _ANSWERED.first(connection, which)
    if answered is None:
        raise ImpossibleAnswer(_OF_NO_TRIP)
    stop = answered.stop(given.sequence)
    told_at = believed_time(given, since=answered.generated_at, now=now)
    is_late = answered.is_over_for(link) or _is_outdated(connection, link, given, answered.station_id, told_at)
    if _said_just_now(connection, link, given, told_at=told_at, is_late=is_late, now=now):
        return TakenAnswer("known")
    if answered.answers >= MOST_ANSWERS_OF_TRIP:
        raise ImpossibleAnswer(text_to_say("Too many answers came for this trip: call your dispatcher."))
    until = _left_out_until(given, stop, answered, link, now) if not is_late else None
    _store(connection, link, given, answered, stop, told_at=told_at, is_late=is_late, until=until, now=now)
    if is_late:
        return TakenAnswer("late")
    if answered.is_correction:
        correction_seen(connection, link.route_id, given.plan_id, now=now)
    return TakenAnswer("taken", _follow(connection, link, given, answered.station_id, now=now))


def _said_just_now(
    connection: Connection,
    link: DriverLink,
    given: GivenAnswer,
    *,
    told_at: datetime | None,
    is_late: bool,
    now: datetime,
) -> bool:
    """True if the driver's newest answer to that stop says the same and has just come. A phone sends what it kept for
    hours at once: one that he gave later is another answer, and so is one that counts where the other is late. A
    purchase is the same."""
    told_since = told_at - SAME_WITHIN if told_at is not None and given.kind is not AnswerKind.FUELED else None
    asked = {
        "company_id": link.company_id,
        "route_id": link.route_id,
        "driver_id": link.driver_id,
        "since": now - SAME_WITHIN,
        "told_since": told_since,
        "is_late": is_late,
        **{name: getattr(given, name) for name in _SAYS},
    }
    return _SAID_JUST_NOW.first(connection, asked) is not None


def _is_outdated(
    connection: Connection, link: DriverLink, given: GivenAnswer, station_id: str | None, told_at: datetime | None
) -> bool:
    """True if the driver, after he gave this answer for certain, has said something else of the station, on another
    phone. That he has fueled stays true."""
    if told_at is None or given.kind is AnswerKind.FUELED:
        return False
    since = told_at + _LONGEST_ON_ITS_WAY
    asked = (link.company_id, link.route_id, link.driver_id, station_id, given.kind, since)
    return _SAID_OTHERWISE_SINCE.first(connection, asked) is not None


def _left_out_until(
    given: GivenAnswer, stop: FuelStopDocument, answered: _Answered, link: DriverLink, now: datetime
) -> datetime | None:
    """The moment until which plans leave the station out, by the times of the trip, which the sandbox simulates."""
    if given.reason is None or answered.station_id is None:
        return None
    is_simulated = link.environment != Environment.LIVE and answered.newest_at is not None
    arrival = stop["estimatedArrival"]
    moments = [now, answered.newest_at if is_simulated else None, datetime.fromisoformat(arrival) if arrival else None]
    return later(max(one for one in moments if one is not None), _LEFT_OUT_FOR[given.reason])


def _store(
    connection: Connection,
    link: DriverLink,
    given: GivenAnswer,
    answered: _Answered,
    stop: FuelStopDocument,
    *,
    told_at: datetime | None,
    is_late: bool,
    until: datetime | None,
    now: datetime,
) -> None:
    place = given.place or (answered.place_of_truck(link, told_at or now) if not is_late else None)
    _STORE.one(
        connection,
        (
            *(new_id(), link.company_id, link.environment, link.route_id, link.driver_id),
            *(given.plan_id, given.sequence, given.key, given.kind, given.reason, answered.station_id, stop["name"]),
            *(now, told_at, is_late),
            *((place.latitude, place.longitude) if place is not None else (None, None)),
            *(given.gallons, given.fill_percent, given.price_per_gallon, until),
        ),
    )


def _follow(
    connection: Connection, link: DriverLink, given: GivenAnswer, station_id: str | None, *, now: datetime
) -> bool:
    """Does what follows from a new answer on a trip that goes on. Returns True if a new plan is being made."""
    if station_id is None:
        return False
    if given.kind is not AnswerKind.REFUSED:
        _LIFT_REFUSALS.all(connection, (link.company_id, link.route_id, station_id))
        return False
    makes_new_plan = make_new_plans(connection, link.company_id, route_id=link.route_id, now=now) > 0
    if given.reason is RefusalReason.CLOSED and link.environment == Environment.LIVE:
        _close_for_company(connection, link, station_id, now=now)
    return makes_new_plan


def _close_for_company(connection: Connection, link: DriverLink, station_id: str, *, now: datetime) -> None:
    """Closes the station for the company, if another driver found it closed too. Closures count for live trucks, so
    drivers of the sandbox close nothing. A closure that ends later stays."""
    _LOCK_FINDS.execute(connection, (f"{link.company_id} {station_id}",))
    asked = (link.company_id, now - CLOSED_FOR, station_id, link.driver_id)
    if _OTHER_DRIVER_FOUND_IT_CLOSED.first(connection, asked) is None:
        return
    until = now + CLOSED_FOR
    in_force = closures.closures_in_force(connection, link.company_id, station_id=station_id, now=now)
    if all(one.closed_until < until for one in in_force):
        try:
            closures.mark_closed(connection, station_id, link.company_id, until, TWO_DRIVERS, now=now)
        except UnknownStation:  # deleted since: no plan stops there any more
            return
        make_new_plans(connection, link.company_id, now=now)

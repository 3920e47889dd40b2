"""Due trucks: trucks that have to be processed, because a new fix is near a stop or older than a departure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.contract.shapes import Position
from domain.database.connections import Connection, as_array
from domain.database.statements import NotNull, Statement
from domain.lifecycle import Environment
from domain.roads.sphere import METERS_PER_MILE, MILES_PER_DEGREE
from domain.telematics import arrivals
from domain.telematics.looks import IS_DUE
from domain.telematics.rechecks import WaitingAgain, process_trucks

NewFixes = Mapping[tuple[str, datetime], Position]
"""Fixes by the id of their vehicle and the time when they were recorded."""

_FURTHER_METERS = 500.0
"""A fix this far beyond the arrival radius is still near a stop. This covers the margin of departures, the accuracy of
the fix, and the error of measuring in degrees."""

_HINTED_FOR = timedelta(minutes=1)
"""A truck that has waited longer gets no further job with each post: the workers are behind, and the sweep enqueues its
job."""

MAY_WAIT = timedelta(minutes=1)
"""A live truck that is due for a look at its fuel alone, or because it stands at a fuel stop or has just left it, gets
no job of its own, whatever it sends meanwhile. It waits for the next full minute, this long at most. Then the sweep
enqueues it together with all others of its company, and many together cost a third of as many one by one."""

OPEN_ROUTES_OF_TRUCK = """
    (SELECT r.id, r.scheduled_start, r.stops, r.fuel_visits FROM routes r
     WHERE r.vehicle_id = truck.vehicle_id AND r.environment = %(environment)s
       AND (r.status IN ('planned','active') OR r.status = 'draft' AND r.arrived_at IS NOT NULL))
    UNION ALL
    (SELECT r.id, r.scheduled_start, r.stops, NULL::jsonb FROM routes r
     WHERE r.vehicle_id = truck.vehicle_id AND r.environment = %(environment)s
       AND r.status = 'draft' AND r.arrived_at IS NULL
       AND r.scheduled_start BETWEEN truck.newest_at - %(stale)s::interval AND truck.newest_at + %(early)s::interval
     ORDER BY r.scheduled_start, r.id LIMIT 3)
    UNION ALL
    (SELECT r.id, r.scheduled_start, r.stops, NULL::jsonb FROM routes r
     WHERE r.vehicle_id = truck.vehicle_id AND r.environment = %(environment)s
       AND r.status = 'draft' AND r.arrived_at IS NULL AND r.scheduled_start < truck.newest_at - %(stale)s::interval
     ORDER BY r.scheduled_start, r.id LIMIT 2)
"""
"""A few routes of a `truck` (vehicle_id, newest_at), among which `arrivals.current_route` finds the one that it is on,
however many drafts it has:

- the started ones (hardly ever more than one);
- the first 3 of the drafts that can start now;
- the first 2 of the drafts that are more than a day late (`stale` is `arrivals.STALE_DRAFT_AFTER`).

One of each would do, but it may be closed before a worker chooses."""


class _DueTruck(NamedTuple):
    vehicle_id: UUID
    company_id: UUID
    unprocessed_since: NotNull[datetime]
    may_wait: bool
    """True if the new fixes alone make it due for nothing but what waits for the next full minute."""


_MAKE_DUE = Statement(
    _DueTruck,
    f"""
    WITH truck AS MATERIALIZED (
        SELECT t.vehicle_id, t.newest_at, t.watch_from, t.watch_at, t.look_from, t.look_below_percent, t.look_by,
               fixes.south, fixes.north, fixes.moments, fixes.latitudes, fixes.longitudes, fixes.fuel_percents,
               t.look_from <= fixes.newest_at
               AND (t.look_by <= fixes.newest_at OR t.look_below_percent > fixes.least_percent) AS may_look,
               (%(is_live)s AND t.unprocessed_from <= fixes.oldest_at) IS TRUE AS waits
        FROM (SELECT vehicle_id, min(latitude) - %(degrees)s AS south, max(latitude) + %(degrees)s AS north,
                     array_agg(recorded_at ORDER BY recorded_at) AS moments,
                     array_agg(latitude ORDER BY recorded_at) AS latitudes,
                     array_agg(longitude ORDER BY recorded_at) AS longitudes,
                     array_agg(fuel_percent ORDER BY recorded_at) AS fuel_percents,
                     min(recorded_at) AS oldest_at, max(recorded_at) AS newest_at, min(fuel_percent) AS least_percent
              FROM unnest(%(vehicles)s::uuid[], %(recorded_at)s::timestamptz[], %(latitudes)s::float8[],
                          %(longitudes)s::float8[], %(fuel_percents)s::float8[])
                  AS fix (vehicle_id, recorded_at, latitude, longitude, fuel_percent)
              GROUP BY vehicle_id) AS fixes
        CROSS JOIN LATERAL (SELECT * FROM tracks t WHERE t.vehicle_id = fixes.vehicle_id
                            AND t.environment = %(environment)s OFFSET 0) AS t
    ), due AS MATERIALIZED (
        SELECT truck.vehicle_id, min(first_at) AS first_at, bool_and(may_wait) AS may_wait
        FROM truck CROSS JOIN LATERAL (
            SELECT min(fix.recorded_at) AS first_at,
                   bool_and(fix.recorded_at < places.fueled_until AND fix.recorded_at >= visited.until
                            AND near.is_at_stop IS NOT TRUE) AS may_wait
            FROM ({OPEN_ROUTES_OF_TRUCK}) AS open_route
            CROSS JOIN LATERAL (
                SELECT coalesce(max(coalesce(v.departed_at + interval '10 minutes', 'infinity')), '-infinity') AS until
                FROM visits v WHERE v.route_id = open_route.id) AS visited
            CROSS JOIN LATERAL (
                SELECT array_agg(place.latitude) FILTER (WHERE is_near) AS latitudes,
                       array_agg(place.longitude) FILTER (WHERE is_near) AS longitudes,
                       array_agg(number <= jsonb_array_length(open_route.stops)) FILTER (WHERE is_near) AS are_stops,
                       coalesce(max(coalesce("departedAt" + interval '10 minutes', 'infinity'))
                                FILTER (WHERE "arrivedAt" IS NOT NULL), '-infinity') AS fueled_until
                FROM ROWS FROM (jsonb_to_recordset(open_route.stops || coalesce(open_route.fuel_visits, '[]'))
                     AS (latitude float8, longitude float8, "arrivedAt" timestamptz, "departedAt" timestamptz))
                     WITH ORDINALITY AS place (latitude, longitude, "arrivedAt", "departedAt", number),
                LATERAL (SELECT place.latitude BETWEEN truck.south AND truck.north AS is_near) AS band) AS places
            CROSS JOIN LATERAL unnest(truck.moments, truck.latitudes, truck.longitudes)
                AS fix (recorded_at, latitude, longitude)
            CROSS JOIN LATERAL (
                SELECT bool_or(is_stop) AS is_at_stop
                FROM unnest(places.latitudes, places.longitudes, places.are_stops)
                    AS place (latitude, longitude, is_stop),
                LATERAL (SELECT abs(place.longitude - fix.longitude) AS across) AS apart
                WHERE abs(place.latitude - fix.latitude) <= %(degrees)s
                  AND (abs(fix.latitude) > 89
                       OR least(across, 360 - across) * cosd(fix.latitude) <= %(degrees)s * 1.1)) AS near
            WHERE open_route.scheduled_start - fix.recorded_at <= %(early)s
              AND (fix.recorded_at < visited.until OR fix.recorded_at < places.fueled_until
                   OR near.is_at_stop IS NOT NULL)
            UNION ALL
            SELECT truck.watch_from, false FROM unnest(truck.moments) AS recorded_at
            WHERE recorded_at >= truck.watch_at
            UNION ALL
            SELECT fix.recorded_at, true
            FROM unnest(truck.moments, truck.fuel_percents) AS fix (recorded_at, fuel_percent)
            WHERE truck.may_look AND NOT truck.waits AND {IS_DUE}
        ) AS why
        GROUP BY truck.vehicle_id, truck.waits
        HAVING min(first_at) IS NOT NULL AND NOT (truck.waits AND bool_and(may_wait))
    )
    UPDATE tracks t
    SET unprocessed_from = least(t.unprocessed_from, due.first_at),
        unprocessed_since = CASE WHEN due.may_wait THEN coalesce(t.unprocessed_since, %(wait_until)s)
                                 ELSE least(nullif(t.unprocessed_since, date_trunc('minute', t.unprocessed_since)),
                                            %(now)s) END
    FROM due
    WHERE t.vehicle_id = ANY(ARRAY(SELECT vehicle_id FROM due)) AND t.environment = %(environment)s
      AND t.vehicle_id = due.vehicle_id
    RETURNING t.vehicle_id, t.company_id, t.unprocessed_since, due.may_wait
    """,
)
"""Notes in a track its earliest new fix that may move a route. Such a fix is within reach of a stop, or older than the
latest departure (and ten minutes), or may show that a watched truck has left its road (`watches`) or that its fuel does
not last (`looks`). Fixes far from every stop, and fixes that are too early for the route, move no route. They are
stored, and rules that read older fixes find them. Where the newest fix and the lowest level of a truck make no look
due, the levels are not unpacked, which would take a twentieth of PostgreSQL's time for a fix. A live truck that is due
with older fixes is processed anyway, so its track is not stored once more for what may wait.

A truck that waits has a full minute in `unprocessed_since`, and nobody has enqueued a job for it. A fix that may not
wait gets its job all the same, however late the sweep is.

The fixes are sorted by truck, because PostgreSQL would put the arrays of more than some 200 trucks on the disk
where it groups them by hashes.

The cost is that of the fixes and of the stops of a few routes, not of all drafts of the truck."""


def make_trucks_due(
    connection: Connection,
    environment: Environment,
    fixes: NewFixes,
    *,
    now: datetime,
    near_meters: float,
    early: timedelta,
) -> None:
    """Makes the trucks due whose new fixes may move a route, and has them processed after the commit.

    `feed` has stored these fixes before, and so locked the tracks. This is a statement of its own, for a route may be
    imported at the same time: either this statement sees the route, or the import sees the fixes. For the first fix of
    a silent truck, neither may be; so the feed lets it wait for the sweep.
    """
    if not fixes:
        return
    is_live = environment == Environment.LIVE
    waiting = _MAKE_DUE.all(
        connection,
        {
            "environment": environment,
            "vehicles": as_array(vehicle_id for vehicle_id, _ in fixes),
            "recorded_at": as_array(recorded_at for _, recorded_at in fixes),
            "latitudes": as_array(position.latitude for position in fixes.values()),
            "longitudes": as_array(position.longitude for position in fixes.values()),
            "fuel_percents": as_array(position.fuel_percent for position in fixes.values()),
            "degrees": (near_meters + _FURTHER_METERS) / METERS_PER_MILE / MILES_PER_DEGREE,
            "stale": arrivals.STALE_DRAFT_AFTER,
            "early": early,
            "is_live": is_live,
            "now": now,
            "wait_until": now.replace(second=0, microsecond=0) + MAY_WAIT if is_live else now,
        },
    )
    waiting = [truck for truck in waiting if not (is_live and truck.may_wait)]
    hinted = [truck for truck in waiting if timedelta() <= now - truck.unprocessed_since <= _HINTED_FOR]
    process_trucks(connection, (WaitingAgain(environment, truck.company_id, truck.vehicle_id) for truck in hinted))

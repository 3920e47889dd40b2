"""SQL on trucks on their way: late, silent, off the road, low on fuel. The needs of a company and its map use it.

Commands of every day load this module, so it imports nothing that is slow to load."""

from datetime import timedelta

TRUCK_SILENT_AFTER = timedelta(hours=1)
"""A truck on a route counts as silent when its last position is this old. Gateways send one every minute or so."""

RECENT = timedelta(days=7)
"""Errors and messages older than this are history that needs no one."""

OFF_ROAD_SHOWN_FOR = timedelta(hours=1)
"""A truck found off the road of its plan counts as off its road for this time, by the times of its own fixes. If it is
still off the road then, it has been found so again."""

ON_ITS_WAY = "r.status = ANY('{planned,active}')"
IS_SILENT = "t.newest_at < %(silent)s::timestamptz"
"""SQL of a truck's track `t`; `silent` is TRUCK_SILENT_AFTER ago."""
BEGINS_LOW = """((m.begins_low OR m.text LIKE 'LOW FUEL%%') AND NOT EXISTS (
    SELECT FROM tracks behind WHERE behind.vehicle_id = r.vehicle_id AND behind.environment = r.environment
      AND behind.watch_at IS NOT NULL AND behind.fuel_stops_passed > 0))"""
"""SQL of the message `m` of a plan of the route `r` that begins low on fuel, until the truck's first fuel stop is
behind it. Of a message that the release before wrote, only the text says it."""
GETS_LOW = "t.low_since IS NOT NULL"
"""SQL of a truck's track `t`: its fuel does not last to its next purchase above the floor."""
HAS_NO_LEVEL = "t.look_below_percent = 0"
"""SQL of a truck's track `t` whose fuel does not last: it sends no level, so only its miles say so."""
NEXT_STOP = "(SELECT coalesce(max(reached.stop) + 1, 0) FROM visits reached WHERE reached.route_id = r.id)"
"""SQL for the number of the first stop of a route `r` that was not reached; past the last one where all were."""
IS_OFF_ROAD = """(coalesce(r.replan->>'kind' = 'off_road', false) OR EXISTS (
    SELECT FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision AND n.cause->>'kind' = 'off_road'
      AND (n.cause->>'at')::timestamptz > t.newest_at - %(off_road)s::interval))"""
"""SQL on a route `r` and its truck's track `t`; `off_road` is OFF_ROAD_SHOWN_FOR. The driver need not have been told
the plan that was made because of it."""
IS_LATE = "(next.stop->'arrivalWindow'->>'end')::timestamptz < %(now)s::timestamptz"
"""SQL on a route's `next` stop."""


def _half_chord(latitude: str, longitude: str, other_latitude: str, other_longitude: str) -> str:
    """SQL of the square of half the chord between two places on a sphere of radius 1, which grows with their
    distance."""
    return (
        f"(sin(radians({other_latitude} - {latitude}) / 2) ^ 2 + cos(radians({latitude}))"
        f" * cos(radians({other_latitude})) * sin(radians({other_longitude} - {longitude}) / 2) ^ 2)"
    )


def _from_truck(stop: str) -> str:
    return _half_chord("t.latitude", "t.longitude", *_place(stop))


def _place(stop: str) -> tuple[str, str]:
    return f"({stop}->>'latitude')::float8", f"({stop}->>'longitude')::float8"


def _mile_of_stop(number: str) -> str:
    return (
        "(SELECT (entry->>'mile')::float8 FROM jsonb_array_elements(p.timeline) entry"
        f" WHERE (entry->>'stop')::int = {number})"
    )


_MILE = "(told.stop->>'milesFromOrigin')::float8"
WITH_NEXT_FUEL_STOP = f"""
    CROSS JOIN LATERAL (SELECT {NEXT_STOP} AS number OFFSET 0) AS stop_ahead
    CROSS JOIN LATERAL (
        SELECT r.stops->stop_ahead.number AS stop, {_mile_of_stop("stop_ahead.number")} AS mile,
               coalesce({_mile_of_stop("stop_ahead.number - 1")}, 0) AS reached_mile OFFSET 0) AS ahead
    CROSS JOIN LATERAL (
        SELECT told.number::int AS number, told.stop,
               %(road_miles_around)s::float8 * asin(least(1, sqrt({_from_truck("told.stop")}))) AS miles
        FROM (SELECT one.number, one.stop, lead(one.stop) OVER (ORDER BY one.number) AS following
              FROM jsonb_array_elements(p.document->'stops') WITH ORDINALITY AS one (stop, number)) AS told
        CROSS JOIN LATERAL (
            SELECT CASE WHEN told.following IS NULL
                          OR ahead.mile < (told.following->>'milesFromOrigin')::float8 THEN ahead.stop
                        ELSE told.following END AS stop) AS onward
        WHERE ahead.stop IS NOT NULL AND {_MILE} >= ahead.reached_mile
          AND told.number > CASE WHEN t.watch_at IS NOT NULL THEN t.fuel_stops_passed ELSE 0 END
          AND (coalesce(ahead.mile < {_MILE}, false)
               OR {_from_truck("onward.stop")} >= {_half_chord(*_place("told.stop"), *_place("onward.stop"))})
        ORDER BY told.number LIMIT 1) AS fuel
"""
"""SQL of the next fuel stop of a truck with the track `t` on a route `r` with the plan `p`: `fuel.stop`, its number
from 1, and about how many miles of road it is away. The function below gives `road_miles_around`. The rule is that of
`planning/next_fuel_stop.py`."""


def road_miles_around() -> float:
    """The miles of road to which the arcsine of half a chord is scaled."""
    from domain.roads import CIRCUITY
    from domain.roads.sphere import EARTH_RADIUS_MILES

    return 2 * EARTH_RADIUS_MILES * CIRCUITY

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

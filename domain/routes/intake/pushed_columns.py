"""The columns of `routes` that a push fills, and the route that it names.

Statements get the body in the form of `RouteInput`, as the jsonb column `body` of `pushed`. The trace of the push is in
the columns `request_id` and `traceparent` of `pushed`."""

PUSHED_COLUMNS = """external_id, reference, vehicle_unit_number, vehicle_vin, driver_name, driver_external_id,
    scheduled_start, stops"""

PUSHED_VALUES = """pushed.body->>'externalId', pushed.body->>'reference', pushed.body->'vehicle'->>'unitNumber',
    pushed.body->'vehicle'->>'vin', pushed.body->'driver'->>'name', pushed.body->'driver'->>'externalId',
    (pushed.body->>'scheduledStart')::timestamptz, pushed.body->'stops'"""
"""The values of `PUSHED_COLUMNS`, in order."""

TRACE_COLUMNS = "request_id, traceparent"
TRACE_VALUES = "pushed.request_id, pushed.traceparent"

NAMED_ROUTE = """routes r ON r.company_id = pushed.company_id AND r.environment = pushed.environment
    AND r.external_id = pushed."externalId" AND r.status <> 'canceled'"""
"""The join of `pushed` to the one route, not canceled, with its `externalId`. That id is a column of its own: behind
the second wall no index serves a condition that reads it from the body (`domain.database.visibility`)."""

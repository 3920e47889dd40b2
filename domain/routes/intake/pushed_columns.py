"""Which columns of `routes` a pushed body fills. Statements get the body as `RouteInput` is written: as jsonb."""

PUSHED_COLUMNS = """external_id, reference, vehicle_unit_number, vehicle_vin, driver_name, driver_external_id,
    scheduled_start, stops"""

PUSHED_VALUES = """pushed.body->>'externalId', pushed.body->>'reference', pushed.body->'vehicle'->>'unitNumber',
    pushed.body->'vehicle'->>'vin', pushed.body->'driver'->>'name', pushed.body->'driver'->>'externalId',
    (pushed.body->>'scheduledStart')::timestamptz, pushed.body->'stops'"""
"""Of `COLUMNS`, in order, where `pushed` has the column `body`."""

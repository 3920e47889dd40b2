"""The columns of `routes` that a push fills, and the route that it names.

Statements get the body in the form of `RouteInput`, as the jsonb column `body` of `pushed`. The trace of the push is in
the columns `request_id` and `traceparent` of `pushed`."""

from domain.contract.shapes import PUSHED_FIELDS, PushedField


def _value_of(field: PushedField) -> str:
    *objects, name = (f"'{part}'" for part in field.path.split("."))
    text = f"{'->'.join(('pushed.body', *objects))}->>{name}"
    return text if field.type == "text" else f"({text})::{field.type}"


PUSHED_COLUMNS = ", ".join([*(field.column for field in PUSHED_FIELDS), "stops"])
PUSHED_VALUES = ", ".join([*map(_value_of, PUSHED_FIELDS), "pushed.body->'stops'"])
"""The values of `PUSHED_COLUMNS`, in order."""

TRACE_COLUMNS = "request_id, traceparent"
TRACE_VALUES = "pushed.request_id, pushed.traceparent"

NAMED_ROUTE = """routes r ON r.company_id = pushed.company_id AND r.environment = pushed.environment
    AND r.external_id = pushed."externalId" AND r.status <> 'canceled'"""
"""The join of `pushed` to the one route, not canceled, with its `externalId`. That id is a column of its own: behind
the second wall no index serves a condition that reads it from the body (`domain.database.visibility`)."""

"""The columns of `routes` that a push fills, and the route that it names.

Statements get the body in the form of `RouteInput`, as the jsonb column `body` of `pushed`. The trace of the push is in
the columns `request_id` and `traceparent` of `pushed`."""

from domain.contract.shapes import PUSHED_FIELDS, PushedField


def _value_of(field: PushedField) -> str:
    *objects, name = (f"'{part}'" for part in field.path.split("."))
    text = f"{'->'.join(('pushed.body', *objects))}->>{name}"
    return text if field.type == "text" else f"({text})::{field.type}"


_FIELD_COLUMNS = ", ".join(field.column for field in PUSHED_FIELDS)
_FIELD_VALUES = ", ".join(map(_value_of, PUSHED_FIELDS))

PUSHED_COLUMNS = f"{_FIELD_COLUMNS}, stops"
PUSHED_VALUES = f"{_FIELD_VALUES}, pushed.body->'stops'"
"""The values of `PUSHED_COLUMNS`, in order."""

_WITHOUT_EMPTY_WINDOWS = """replace(({})::text, ', "arrivalWindow": {{}}', '')"""

SAME_INPUT = f"""(ROW ({_FIELD_COLUMNS}) IS NOT DISTINCT FROM ROW ({_FIELD_VALUES}) AND (
    stops = pushed.body->'stops'
    OR {_WITHOUT_EMPTY_WINDOWS.format("stops")} = {_WITHOUT_EMPTY_WINDOWS.format("pushed.body->'stops'")}))"""
"""True if the push brings the stored input again. A window without ends is no window; a stop's window is the last of
its fields in the text of jsonb, after the coordinates."""

TRACE_COLUMNS = "request_id, traceparent"
TRACE_VALUES = "pushed.request_id, pushed.traceparent"

NAMED_ROUTE = """routes r ON r.company_id = pushed.company_id AND r.environment = pushed.environment
    AND r.external_id = pushed."externalId" AND r.status <> 'canceled'"""
"""The join of `pushed` to the one route, not canceled, with its `externalId`. That id is a column of its own: behind
the second wall no index serves a condition that reads it from the body (`domain.database.visibility`)."""

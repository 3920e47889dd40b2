"""Values are written as JSON: answers to callers, and the documents of jsonb columns. A time in UTC ends with `Z`."""

from datetime import UTC, datetime

import msgspec

write = msgspec.json.Encoder().encode
"""`value` as JSON, bytes; msgspec's shapes and times included."""


def utc_text(time: datetime) -> str:
    """RFC 3339 in UTC, with fractions of seconds: without them a fuel stop could seem earlier than one before it."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")

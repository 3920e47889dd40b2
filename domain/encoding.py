"""Writes values as JSON, for answers to callers and for the documents of jsonb columns. A time in UTC ends with `Z`."""

from datetime import UTC, datetime

import msgspec

write = msgspec.json.Encoder().encode
"""Encodes a value as JSON, in bytes; msgspec's shapes and times are understood."""


def utc_text(time: datetime) -> str:
    """The time as RFC 3339 in UTC, with fractions of seconds: without them a fuel stop could seem earlier than the one
    before it."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")

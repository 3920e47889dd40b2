"""Values are written as JSON: answers to callers, and the documents of jsonb columns. Times are in UTC with `Z`."""

from datetime import datetime

import msgspec


def write(value: object) -> bytes:
    """`value` as JSON; msgspec's shapes included."""
    return _encoder.encode(value)


def _write_moment(value: object) -> object:
    """msgspec writes a datetime by itself, but not the contract's `Instant`, which is a subclass and always in UTC."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise NotImplementedError(type(value))


_encoder = msgspec.json.Encoder(enc_hook=_write_moment)

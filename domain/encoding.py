"""Values are written as JSON: answers to callers, and the documents of jsonb columns. A time in UTC ends with `Z`."""

import msgspec

write = msgspec.json.Encoder().encode
"""`value` as JSON, bytes; msgspec's shapes and times included."""

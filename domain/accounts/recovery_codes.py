"""Recovery codes: each stands in for one one-time code, for people who have lost their phone.

A user who turns one-time codes on gets ten. Each has 79 random bits, so one round of SHA-256 is enough to hide it."""

import secrets
from datetime import datetime
from uuid import UUID

from domain.accounts.tokens import hash_of_token
from domain.database.connections import Connection
from domain.database.statements import Command, Scalar

RECOVERY_CODES = 10

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits that are hard to confuse."""
_GROUPS, _LETTERS_OF_GROUP = 4, 4

_FORGET = Command("DELETE FROM recovery_codes WHERE user_id = %s")
_ADD = Command("INSERT INTO recovery_codes (user_id, token_hash, created_at) SELECT %s, unnest(%s::bytea[]), %s")
_USE = Command("DELETE FROM recovery_codes WHERE user_id = %s AND token_hash = %s")


_COUNT = Scalar(int, "SELECT count(*) FROM recovery_codes WHERE user_id = %s")


def make_recovery_codes(connection: Connection, user_id: UUID, *, now: datetime) -> list[str]:
    """New codes, which replace all earlier ones. They cannot be shown again."""
    codes = [_new_code() for _ in range(RECOVERY_CODES)]
    _FORGET.execute(connection, (user_id,))
    _ADD.execute(connection, (user_id, [_hash(user_id, code) for code in codes], now))
    return codes


def _new_code() -> str:
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(_LETTERS_OF_GROUP)) for _ in range(_GROUPS))
    return "-".join(groups)


def use_recovery_code(connection: Connection, user_id: UUID, code: str) -> bool:
    """Uses up a code. Returns False if the user has no such code, or another sign-in has used it."""
    return _USE.execute(connection, (user_id, _hash(user_id, code))).rowcount == 1


def count_recovery_codes(connection: Connection, user_id: UUID) -> int:
    """The number of codes left."""
    return _COUNT.one(connection, (user_id,))


def forget_recovery_codes(connection: Connection, user_id: UUID) -> None:
    _FORGET.execute(connection, (user_id,))


def _hash(user_id: UUID, code: str) -> bytes:
    """The hash of a code, in any spacing and case."""
    return hash_of_token(f"{user_id} {''.join(filter(str.isalnum, code.lower()))}")

"""Passwords of the console's users, hashed with Argon2id.

A check takes 64 MiB and some tens of milliseconds of a processor, so the console does it in a few threads of their
own."""

import functools
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from domain.errors import FuelrouteError

MIN_CHARACTERS = 12
MAX_CHARACTERS = 200

_hasher = PasswordHasher()


class UnusablePassword(FuelrouteError):
    """A new password cannot be used; the text says what is wrong with it."""


def hash_password(password: str, email: str) -> str:
    """The password in its stored form. Raises UnusablePassword if it is too short or easy to guess."""
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        raise UnusablePassword(f"a password has {MIN_CHARACTERS} to {MAX_CHARACTERS} characters")
    if password.lower() in (email, email.partition("@")[0]) or len(set(password)) < 5:
        raise UnusablePassword(
            "this password is too easy to guess: use several words, or let a password manager make one"
        )
    return _hasher.hash(password.encode(errors="replace"))


def is_password(stored: str | None, password: str) -> bool:
    """True for the right password. The check takes as long when none is stored, so its time does not tell who is a
    user."""
    if len(password) > MAX_CHARACTERS:
        return False
    try:
        matches = _hasher.verify(stored or _nobodys_hash(), password.encode(errors="replace"))
    except (VerificationError, InvalidHashError):
        return False
    return matches and stored is not None


@functools.cache
def _nobodys_hash() -> str:
    return _hasher.hash(secrets.token_bytes(32))

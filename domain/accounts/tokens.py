"""Random tokens for cookies and links. Only their hashes are stored, so that a copy of the database opens nothing."""

import hashlib
import hmac
import secrets


def new_token() -> str:
    """A token of 256 random bits. One round of SHA-256 is enough to hide it."""
    return secrets.token_urlsafe(32)


def hash_of_token(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def form_token(token: str) -> str:
    """The token for forms in the browser with this cookie. The cookie cannot be made from it."""
    return hmac.new(token.encode(errors="replace"), b"form", hashlib.sha256).hexdigest()


def is_form_token(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), form_token(token).encode())

"""Random tokens for cookies and links. Only their hashes are stored, so that a copy of the database opens nothing."""

import hashlib
import hmac
import secrets
from uuid import UUID


def new_token() -> str:
    """A token of 256 random bits. One round of SHA-256 is enough to hide it."""
    return secrets.token_urlsafe(32)


def hash_of_token(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


_FORM_CHARACTERS = 64


def form_token(token: str, company_id: UUID | None = None) -> str:
    """The token for forms in the browser with this cookie. The cookie cannot be made from it. `company_id` is the
    company of the page, where the person may choose another one."""
    digits = hmac.new(token.encode(errors="replace"), b"form", hashlib.sha256).hexdigest()
    return f"{digits}{company_id.hex}" if company_id is not None else digits


def is_form_token(given: str, token: str) -> bool:
    return hmac.compare_digest(given[:_FORM_CHARACTERS].encode(errors="replace"), form_token(token).encode())


def is_of_company(given: str, company_id: UUID | None) -> bool:
    """False for the token of a form on a page of another company. `company_id` is that of `form_token`."""
    return not given or given[_FORM_CHARACTERS:] == ("" if company_id is None else company_id.hex)

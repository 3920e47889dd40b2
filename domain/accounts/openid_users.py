"""The users to whom accounts at the OpenID Connect provider belong.

The first sign-in binds an account to the user who was invited with its verified e-mail address, or whose invitation
was opened. From then on the account is known by its subject, whatever its e-mail address becomes. Nobody gets access
without an invitation.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import psycopg

from domain.accounts.openid import ProvedIdentity
from domain.accounts.users import find_link, forget_links, tidy_email
from domain.database import Connection
from domain.lifecycle import Role
from domain.statements import Command, Statement


class NoUser(StrEnum):
    """The reasons why an account at the provider signs nobody in."""

    UNKNOWN = "unknown"
    UNVERIFIED = "unverified"
    """The provider names no verified e-mail address."""
    OTHER_ACCOUNT = "other_account"
    """The user is bound to another account."""
    OTHER_USER = "other_user"
    """The account is bound to another user than the invited one."""
    LINK_ENDED = "link_ended"
    OPERATOR = "operator"
    """Operators sign in by password."""


class BoundUser(NamedTuple):
    id: UUID
    email: str
    company_id: UUID | None
    is_new: bool
    """The account was bound by this sign-in."""


class _User(NamedTuple):
    id: UUID
    email: str
    company_id: UUID | None
    role: str
    openid_issuer: str | None
    openid_subject: str | None

    def is_bound_to(self, identity: ProvedIdentity) -> bool:
        return (self.openid_issuer, self.openid_subject) == (identity.issuer, identity.subject)


_USER = (
    "SELECT u.id, u.email, u.company_id, u.role, u.openid_issuer, u.openid_subject FROM users u"
    " LEFT JOIN companies c ON c.id = u.company_id WHERE c.retired_at IS NULL AND {} FOR NO KEY UPDATE OF u"
)
_BY_SUBJECT = Statement(_User, _USER.format("u.openid_issuer = %s AND u.openid_subject = %s"))
_BY_EMAIL = Statement(_User, _USER.format("u.email = %s"))
_BY_ID = Statement(_User, _USER.format("u.id = %s"))
_BIND = Command("UPDATE users SET openid_issuer = %s, openid_subject = %s WHERE id = %s")


def user_of_identity(
    connection: Connection, identity: ProvedIdentity, *, link: str, now: datetime
) -> BoundUser | NoUser:
    """The user to whom the account belongs. `link` is the token of the invitation that was opened before; empty: none
    was. A link binds its user to the account, also in place of an earlier one, as it would set a new password."""
    bound = _BY_SUBJECT.first(connection, (identity.issuer, identity.subject))
    if not link:
        user = bound or _by_verified_email(connection, identity)
    else:
        invited = find_link(connection, link, now=now)
        if invited is None:
            return NoUser.LINK_ENDED
        if bound is not None and bound.id != invited.user_id:
            return NoUser.OTHER_USER
        user = _BY_ID.first(connection, (invited.user_id,))
    if user is None:
        return NoUser.UNKNOWN if identity.email is not None or link else NoUser.UNVERIFIED
    if user.role == Role.OPERATOR:
        return NoUser.OPERATOR
    is_new = not user.is_bound_to(identity)  # another sign-in may have bound it a moment ago
    if is_new and not link and user.openid_issuer == identity.issuer:
        return NoUser.OTHER_ACCOUNT
    if is_new and not _bind(connection, identity, user.id):
        return NoUser.OTHER_USER
    if link:
        forget_links(connection, user.id)
    return BoundUser(user.id, user.email, user.company_id, is_new=is_new)


def _by_verified_email(connection: Connection, identity: ProvedIdentity) -> _User | None:
    if identity.email is None:
        return None
    return _BY_EMAIL.first(connection, (tidy_email(identity.email.replace("\x00", "")),))


def _bind(connection: Connection, identity: ProvedIdentity, user_id: UUID) -> bool:
    """False: somebody bound the account to another user at the same moment."""
    try:
        with connection.transaction():
            _BIND.execute(connection, (identity.issuer, identity.subject, user_id))
    except psycopg.errors.UniqueViolation:
        return False
    return True

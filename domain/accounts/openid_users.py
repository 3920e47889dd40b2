"""The users to whom accounts at the OpenID Connect provider belong.

An account signs in the user to whom it is bound, even if its e-mail address changes. It is bound to a user who was
invited with its verified address, or whose invitation was opened, and only after the person has agreed on a page of
ours: otherwise an inviter could make a stranger work as one of the inviter's users. Without an invitation there is no
access."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import psycopg

from domain.accounts.openid import ProvedIdentity
from domain.accounts.tokens import hash_of_token, new_token
from domain.accounts.users import end_access, find_link_by_hash, record_own_action, remove_password, tidy_email
from domain.audit.entries import Action, Actor
from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.lifecycle import Role


class NoUser(StrEnum):
    """The reasons why an account at the provider signs nobody in."""

    UNKNOWN = "unknown"
    UNVERIFIED = "unverified"
    """The provider has no verified e-mail address for it."""
    OTHER_ACCOUNT = "other_account"
    """The user is bound to another account."""
    OTHER_USER = "other_user"
    """The account is bound to a user other than the invited one."""
    OTHER_ADDRESS = "other_address"
    """The account's verified e-mail address differs from the invited user's."""
    LINK_ENDED = "link_ended"
    ASKED_LONG_AGO = "asked_long_ago"
    """The page that asked is too old, or was answered already."""
    OPERATOR = "operator"
    """Operators sign in by password."""


class BoundUser(NamedTuple):
    id: UUID
    email: str
    company_id: UUID | None


class UnboundUser(NamedTuple):
    """A user to whom the account may be bound, if the person agrees."""

    id: UUID
    email: str
    company_name: str
    has_password: bool
    by_link: bool


class _User(NamedTuple):
    id: UUID
    email: str
    company_id: UUID | None
    role: str
    company_name: str | None
    has_password: bool
    openid_issuer: str | None
    openid_subject: str | None

    def is_bound_to(self, identity: ProvedIdentity) -> bool:
        return (self.openid_issuer, self.openid_subject) == (identity.issuer, identity.subject)


_USER = (
    "SELECT u.id, u.email, u.company_id, u.role, c.name AS company_name, u.password_hash IS NOT NULL AS has_password,"
    " u.openid_issuer, u.openid_subject FROM users u"
    " LEFT JOIN companies c ON c.id = u.company_id WHERE c.retired_at IS NULL AND {} FOR NO KEY UPDATE OF u"
)
_BY_SUBJECT = Statement(_User, _USER.format("u.openid_issuer = %s AND u.openid_subject = %s"))
_BY_EMAIL = Statement(_User, _USER.format("u.email = %s"))
_BY_ID = Statement(_User, _USER.format("u.id = %s"))
_BIND = Command("UPDATE users SET openid_issuer = %s, openid_subject = %s WHERE id = %s")


class _Proof(NamedTuple):
    user_id: UUID
    link_hash: bytes | None
    issuer: str
    subject: str
    email: str | None
    next_path: str


_ADD_PROOF = Command(
    "INSERT INTO openid_proofs (token_hash, user_id, link_hash, issuer, subject, email, next_path, created_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_TAKE_PROOF = Statement(
    _Proof,
    "DELETE FROM openid_proofs WHERE token_hash = %s AND created_at > %s"
    " RETURNING user_id, link_hash, issuer, subject, email, next_path",
)

ASKED_FOR = timedelta(minutes=10)
"""Time for the person to agree."""


def user_of_identity(
    connection: Connection, identity: ProvedIdentity, *, link: str, now: datetime
) -> BoundUser | UnboundUser | NoUser:
    """The user to whom the account belongs, or may belong. `link` is the token of the invitation that was opened
    before, empty if none was."""
    return _user_of(connection, identity, hash_of_token(link) if link else None, now)


def _user_of(
    connection: Connection, identity: ProvedIdentity, link_hash: bytes | None, now: datetime
) -> BoundUser | UnboundUser | NoUser:
    bound = _BY_SUBJECT.first(connection, (identity.issuer, identity.subject))
    user = bound or _by_verified_email(connection, identity)
    if link_hash is not None:
        invited = find_link_by_hash(connection, link_hash, now=now)
        if invited is None:
            return NoUser.LINK_ENDED
        if bound is not None and bound.id != invited.user_id:
            return NoUser.OTHER_USER
        if identity.email is not None and not _is_address_of(identity.email, invited.email):
            return NoUser.OTHER_ADDRESS
        user = _BY_ID.first(connection, (invited.user_id,))
    if user is None:
        return NoUser.UNKNOWN if identity.email is not None or link_hash else NoUser.UNVERIFIED
    return _judged(user, identity, by_link=link_hash is not None)


def _judged(user: _User, identity: ProvedIdentity, *, by_link: bool) -> BoundUser | UnboundUser | NoUser:
    if user.role == Role.OPERATOR:
        return NoUser.OPERATOR
    if user.is_bound_to(identity):
        return BoundUser(user.id, user.email, user.company_id)
    if user.openid_issuer == identity.issuer and not by_link:
        return NoUser.OTHER_ACCOUNT
    return UnboundUser(user.id, user.email, user.company_name or "", user.has_password, by_link)


def remember_proof(
    connection: Connection, identity: ProvedIdentity, user: UnboundUser, *, link: str, next_path: str, now: datetime
) -> str:
    """Stores the proof. Returns the token by which the person agrees, within `ASKED_FOR`."""
    token = new_token()
    link_hash = hash_of_token(link) if link else None
    values = (identity.issuer, identity.subject, identity.email, next_path, now)
    _ADD_PROOF.execute(connection, (hash_of_token(token), user.id, link_hash, *values))
    return token


class Agreed(NamedTuple):
    """An account that its owner has bound to a user."""

    user: BoundUser
    next_path: str


def bind_proved_account(connection: Connection, token: str, *, now: datetime) -> Agreed | NoUser:
    """Binds the account to the user, after the person agreed on the page with the token. Everything that signed the
    user in before ends: sessions, known browsers and links; after an invitation also the password, as with a new
    one."""
    proof = _TAKE_PROOF.first(connection, (hash_of_token(token), now - ASKED_FOR))
    if proof is None:
        return NoUser.ASKED_LONG_AGO
    identity = ProvedIdentity(proof.issuer, proof.subject, proof.email)
    user = _user_of(connection, identity, proof.link_hash, now)
    if isinstance(user, NoUser):
        return user
    if user.id != proof.user_id:
        return NoUser.ASKED_LONG_AGO
    if isinstance(user, UnboundUser) and not _bind(connection, identity, user):
        return NoUser.OTHER_USER
    bound = _BY_ID.one(connection, (user.id,))
    record_own_action(connection, Actor(bound.email, f"Signed in at {identity.issuer}"), Action("sign_in.bind_openid"))
    return Agreed(BoundUser(bound.id, bound.email, bound.company_id), proof.next_path)


def _by_verified_email(connection: Connection, identity: ProvedIdentity) -> _User | None:
    if identity.email is None or not _is_plain(identity.email):
        return None
    return _BY_EMAIL.first(connection, (tidy_email(identity.email),))


def _is_address_of(written: str, stored: str) -> bool:
    """Tell if the provider's spelling is this address: only the case of ASCII letters may differ."""
    return _is_plain(written) and tidy_email(written) == stored


def _is_plain(email: str) -> bool:
    """False for an address with spaces or invisible characters: without them it would be another address."""
    return email.isprintable() and not any(map(str.isspace, email))


def _bind(connection: Connection, identity: ProvedIdentity, user: UnboundUser) -> bool:
    """Binds the account. Returns False if another user was bound to it at the same moment; nothing is changed then."""
    try:
        with connection.transaction():
            end_access(connection, user.id)
            if user.by_link:
                remove_password(connection, user.id)
            _BIND.execute(connection, (identity.issuer, identity.subject, user.id))
    except psycopg.errors.UniqueViolation:
        return False
    return True

"""People who sign in to the console: users of a company, and operators, who see every company."""

import string
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.accounts.contacts import Contacts, SealedColumn
from domain.accounts.passwords import hash_password
from domain.accounts.recovery_codes import forget_recovery_codes
from domain.accounts.tokens import hash_of_token, new_token
from domain.audit.entries import Action, Actor, record_action
from domain.database.connections import Connection
from domain.database.fence import require_not_fenced
from domain.database.statements import Command, Scalar, Statement
from domain.errors import FuelrouteError
from domain.ids import new_id, shown_id
from domain.lifecycle import Role

EVERYBODY: Collection[Role] = frozenset(Role)
MAY_OPERATE: Collection[Role] = frozenset({Role.OPERATOR})
MAY_MATCH: Collection[Role] = frozenset({Role.DISPATCHER, Role.OWNER, Role.OPERATOR})
MAY_DISPATCH: Collection[Role] = MAY_MATCH
MAY_SEE_REQUESTS: Collection[Role] = MAY_MATCH
MAY_MANAGE_KEYS: Collection[Role] = frozenset({Role.OWNER, Role.OPERATOR})
MAY_MANAGE_WEBHOOKS: Collection[Role] = MAY_MANAGE_KEYS
MAY_MANAGE_CONNECTORS: Collection[Role] = MAY_MANAGE_KEYS
MAY_MANAGE_USERS: Collection[Role] = MAY_MANAGE_KEYS
MAY_MANAGE_NOTICES: Collection[Role] = MAY_MATCH
MAY_EDIT_FLEET: Collection[Role] = MAY_MATCH
MAY_SEE_DRIVERS_COMPLIANCE: Collection[Role] = MAY_MATCH
MAY_EDIT_POLICY: Collection[Role] = MAY_MANAGE_KEYS
"""Roles that may edit a company's policy, and its deals."""
MAY_EDIT_STATIONS: Collection[Role] = MAY_OPERATE
"""Roles that may edit stations and taxes, which all companies share."""

MAX_EMAIL_CHARACTERS = 200


class UnknownUser(FuelrouteError):
    def __init__(self, email: str) -> None:
        super().__init__(f"there is no user {email!r}: see `fuelroute users list`")


class UnusableUser(FuelrouteError):
    """A user cannot be made; the text says why."""


class LastOwner(FuelrouteError):
    """This user is the only owner: the company would have no one left to manage it."""

    def __init__(self, email: str) -> None:
        super().__init__(f"{email} is the company's only owner: make somebody else an owner first")


class StoredUser(NamedTuple):
    """A user without any secret."""

    id: UUID
    company_id: UUID | None
    email: str
    role: str
    has_password: bool
    has_totp: bool
    has_openid: bool
    """True if an account of the OpenID Connect provider is bound."""
    created_at: datetime


_IN_LOWER_CASE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def tidy_email(email: str) -> str:
    """The e-mail address as it is stored and compared. Only ASCII letters change: in Unicode the KELVIN SIGN has the
    lower case k, and an address with it would be another person's."""
    return email.strip(string.whitespace).translate(_IN_LOWER_CASE)


_INSERT = Command(
    "INSERT INTO users (id, company_id, email, role, password_hash) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (email) DO NOTHING"
)


def create_user(
    connection: Connection, by: Actor, *, email: str, role: Role, company_id: UUID | None, password: str | None = None
) -> UUID:
    """Stores a user and returns the id. Without a password the user needs a link that sets one. The caller has checked
    the company. Raises UnusableUser or UnusablePassword, with the reason."""
    email = tidy_email(email)
    name, at, host = email.partition("@")
    if not (name and at and host) or any(character.isspace() or not character.isprintable() for character in email):
        raise UnusableUser(f"{email!r} is not an e-mail address")
    if len(email) > MAX_EMAIL_CHARACTERS:
        raise UnusableUser(f"an e-mail address has at most {MAX_EMAIL_CHARACTERS} characters")
    if (role is Role.OPERATOR) != (company_id is None):
        raise UnusableUser("an operator belongs to no company; every other user belongs to one")
    user_id = new_id()
    hashed = hash_password(password, email) if password is not None else None
    if _INSERT.execute(connection, (user_id, company_id, email, role, hashed)).rowcount == 0:
        raise UnusableUser(f"there is a user {email!r} already")
    record_action(connection, by, Action("users.create"), f"{shown_id('usr', user_id)} {role}", company_id=company_id)
    return user_id


_USERS = (
    "SELECT id, company_id, email, role, password_hash IS NOT NULL AS has_password,"
    " totp_secret IS NOT NULL AS has_totp, openid_subject IS NOT NULL AS has_openid, created_at FROM users"
)
_LIST = Statement(
    StoredUser, f"{_USERS} WHERE %(company_id)s::uuid IS NULL OR company_id = %(company_id)s ORDER BY email"
)


class _Found(NamedTuple):
    id: UUID
    company_id: UUID | None


_BY_EMAIL = Statement(_Found, "SELECT id, company_id FROM users WHERE email = %s")


class _Removed(NamedTuple):
    company_id: UUID | None
    role: str


_DELETE = Statement(_Removed, "DELETE FROM users WHERE id = %s RETURNING company_id, role")


def list_users(connection: Connection, company_id: UUID | None) -> list[StoredUser]:
    """A company's users; with None all users, operators included."""
    return _LIST.all(connection, {"company_id": company_id})


def find_user(connection: Connection, email: str) -> UUID:
    """The user's id. Raises UnknownUser, and MovedCompany for a user who signs in to another cell."""
    found = _BY_EMAIL.first(connection, (tidy_email(email),))
    if found is None:
        raise UnknownUser(email)
    if found.company_id is not None:
        require_not_fenced(connection, found.company_id)
    return found.id


def remove_user(connection: Connection, user_id: UUID, by: Actor) -> None:
    """Removes a user and ends all their sessions at once."""
    removed = _DELETE.one(connection, (user_id,))
    subject = f"{shown_id('usr', user_id)} {removed.role}"
    record_action(connection, by, Action("users.remove"), subject, company_id=removed.company_id)


# --- Managed by an owner of the company --------------------------------------------------------------------------

_LOCK_OWNERS = Scalar(
    UUID, "SELECT id FROM users WHERE company_id = %s AND role = 'owner' ORDER BY id FOR NO KEY UPDATE"
)
_BY_ID = Statement(StoredUser, f"{_USERS} WHERE company_id = %s AND id = %s FOR NO KEY UPDATE")
_SET_ROLE = Command("UPDATE users SET role = %s WHERE company_id = %s AND id = %s")


def lock_user_of(connection: Connection, company_id: UUID, user_id: UUID) -> StoredUser | None:
    """A user of the company, locked until the transaction ends, together with the company's owners; None if the company
    has no such user. The owners are locked first: otherwise two of them who act on each other would wait for each other
    for ever."""
    _LOCK_OWNERS.all(connection, (company_id,))
    return _BY_ID.first(connection, (company_id, user_id))


def set_role(connection: Connection, company_id: UUID, user: StoredUser, role: Role, by: Actor) -> None:
    """Gives a locked user another role, which counts from the next page on. Raises LastOwner if no owner would be left,
    and UnusableUser for an unsuitable role."""
    if role is Role.OPERATOR:
        raise UnusableUser("an operator belongs to no company")
    if role is not Role.OWNER:
        _require_other_owner(connection, company_id, user)
    _SET_ROLE.execute(connection, (role, company_id, user.id))
    subject = f"{shown_id('usr', user.id)} {role}, was {user.role}"
    record_action(connection, by, Action("users.change_role"), subject, company_id=company_id)


def remove_user_of(connection: Connection, company_id: UUID, user: StoredUser, by: Actor) -> None:
    """Removes a locked user and ends all their sessions at once. Raises LastOwner if no owner would be left."""
    _require_other_owner(connection, company_id, user)
    remove_user(connection, user.id, by)


def _require_other_owner(connection: Connection, company_id: UUID, user: StoredUser) -> None:
    if _LOCK_OWNERS.all(connection, (company_id,)) == [user.id]:
        raise LastOwner(user.email)


_COMPANY_OF = Scalar(UUID | None, "SELECT company_id FROM users WHERE email = %s")
_COMPANY_OF_ID = Scalar(UUID | None, "SELECT company_id FROM users WHERE id = %s")


def company_of_user(connection: Connection, email: str) -> UUID | None:
    """The id of the user's company; None for an operator. Raises NoRow for an unknown user."""
    return _COMPANY_OF.one(connection, (tidy_email(email),))


def record_own_action(connection: Connection, by: Actor, action: Action) -> None:
    """Writes to the audit log what users did to their own account. An operator's belongs to no company."""
    record_action(connection, by, action, "own account", company_id=company_of_user(connection, by.name))


# --- Passwords ---------------------------------------------------------------------------------------------------

LINK_HOURS = 24

_ADD_LINK = Command("INSERT INTO password_links (token_hash, user_id, created_at) VALUES (%s, %s, %s)")
_FORGET_LINKS = Command("DELETE FROM password_links WHERE user_id = %s")


class PasswordLink(NamedTuple):
    user_id: UUID
    email: str


_LINK = Statement(
    PasswordLink,
    "SELECT l.user_id, u.email FROM password_links l JOIN users u ON u.id = l.user_id"
    " WHERE token_hash = %s AND l.created_at > %s FOR UPDATE",
)
_SET_PASSWORD = Command("UPDATE users SET password_hash = %s WHERE id = %s")
_SIGN_OUT = Command("DELETE FROM sessions WHERE user_id = %s")
_UNBIND = Command("UPDATE users SET openid_issuer = NULL, openid_subject = NULL WHERE id = %s")
_FORGET_PROOFS = Command("DELETE FROM openid_proofs WHERE user_id = %s")
_FORGET_DEVICES = Command("DELETE FROM devices WHERE user_id = %s")


def make_password_link(connection: Connection, user_id: UUID, *, now: datetime) -> str:
    """The token of a link that sets the user's password, once, within `LINK_HOURS`. Earlier links end."""
    token = new_token()
    _FORGET_LINKS.execute(connection, (user_id,))
    _ADD_LINK.execute(connection, (hash_of_token(token), user_id, now))
    return token


def reset_user(
    connection: Connection, user_id: UUID, by: Actor, *, without_codes: bool, contacts: Contacts, now: datetime
) -> str:
    """The token of a link that sets a new password; the user's old one works until then. `without_codes` turns off
    one-time codes too. Raises NoRow for an unknown user."""
    if without_codes:
        set_totp(connection, user_id, None, contacts=contacts)
    subject = f"{shown_id('usr', user_id)}{' without codes' if without_codes else ''}"
    record_action(connection, by, Action("users.reset"), subject, company_id=_COMPANY_OF_ID.one(connection, (user_id,)))
    return make_password_link(connection, user_id, now=now)


def email_of_link(connection: Connection, token: str, *, now: datetime) -> str | None:
    """The e-mail address of the user whose password a link sets; None if the link was used or is too old."""
    row = find_link(connection, token, now=now)
    return row.email if row is not None else None


def set_password_by_link(connection: Connection, token: str, password: str, *, now: datetime) -> UUID | None:
    """Sets the password and uses up the link. Returns the user's id; None if the link was used or is too old. Raises
    UnusablePassword, with the reason."""
    row = find_link(connection, token, now=now)
    if row is None:
        return None
    set_password(connection, row.user_id, row.email, password)
    record_own_action(connection, Actor(row.email, "A one-time link was used"), Action("sign_in.set_password"))
    return row.user_id


def find_link_by_hash(connection: Connection, link_hash: bytes, *, now: datetime) -> PasswordLink | None:
    return _LINK.first(connection, (link_hash, now - timedelta(hours=LINK_HOURS)))


def find_link(connection: Connection, token: str, *, now: datetime) -> PasswordLink | None:
    """The user of a link; None if it was used or is too old."""
    return find_link_by_hash(connection, hash_of_token(token), now=now)


def set_password(connection: Connection, user_id: UUID, email: str, password: str) -> None:
    """Sets a password. Ends the binding to the provider's account, and everything else that signed the user in before.
    Raises UnusablePassword, with the reason."""
    _SET_PASSWORD.execute(connection, (hash_password(password, email), user_id))
    end_access(connection, user_id)


def remove_password(connection: Connection, user_id: UUID) -> None:
    _SET_PASSWORD.execute(connection, (None, user_id))


def end_access(connection: Connection, user_id: UUID) -> None:
    """Ends all sessions, known browsers and unused links of the user, and the binding to an account of the provider."""
    for end in (_UNBIND, _FORGET_PROOFS, _FORGET_LINKS, _FORGET_DEVICES, _SIGN_OUT):
        end.execute(connection, (user_id,))


# --- One-time codes ----------------------------------------------------------------------------------------------

_SET_TOTP = Command("UPDATE users SET totp_secret = %s, totp_used_step = %s WHERE id = %s")


def set_totp(
    connection: Connection, user_id: UUID, secret: str | None, *, used_step: int = 0, contacts: Contacts
) -> None:
    """Makes every sign-in by password ask for a code, or with None for none. `used_step` is the step of the code that
    proved that the user's app knows the secret. Earlier recovery codes end."""
    forget_recovery_codes(connection, user_id)
    _SET_TOTP.execute(connection, (contacts.seal(secret), used_step, user_id))


TOTP_SECRETS = SealedColumn("users", "totp_secret", skips_locked=True)

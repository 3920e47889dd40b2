"""Signing in to the console, and the sessions of people who are signed in.

Each request looks its session up, so a session that has ended is refused at once. It ends by signing out, with a new
password, `IDLE_HOURS` after its last request, `LONGEST_DAYS` after it began, and when its user or company is
removed."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import pyotp

from domain.accounts.attempts import counter_of_checks, counters_of, forgive, take_attempt
from domain.accounts.contacts import Contacts
from domain.accounts.openid_users import BoundUser
from domain.accounts.passwords import is_password
from domain.accounts.recovery_codes import count_recovery_codes, use_recovery_code
from domain.accounts.tokens import hash_of_token, new_token
from domain.accounts.users import record_own_action, tidy_email
from domain.audit.entries import Action, Actor, record_about
from domain.database.connections import Connection, Transaction
from domain.database.statements import Command, Scalar, Statement
from domain.lifecycle import Role

IDLE_HOURS = 12
LONGEST_DAYS = 7
DEVICE_DAYS = 365
MOST_BROWSERS = 50
"""Most sessions of a user, and most known browsers. The newest stay."""

_SEEN_EACH = timedelta(minutes=1)
_CODE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A user who has just signed in, and the tokens for the browser's cookies."""

    user_id: UUID

    session: str
    device: str
    recovery_codes_left: int | None = None
    """The number of recovery codes left, if one stood in for the one-time code."""


@dataclass(frozen=True, slots=True)
class SignInRefused:
    """A refused sign-in. `wait` is how long the next attempt has to wait; zero if e-mail, password or code is wrong."""

    wait: timedelta = timedelta()


class Session(NamedTuple):
    """The user who is signed in, and the company whose pages are shown."""

    user_id: UUID
    email: str
    role: Role
    has_password: bool
    has_totp: bool
    has_openid: bool
    company_id: UUID | None
    """The company whose pages are shown; None for an operator who has not chosen one."""
    company_name: str | None
    time_zone: str


class _User(NamedTuple):
    id: UUID
    password_hash: str | None
    totp_secret: str | None
    totp_used_step: int


class _Share(NamedTuple):
    user_id: UUID
    company_id: UUID | None


_USER = Statement(
    _User,
    "SELECT u.id, password_hash, totp_secret, totp_used_step FROM users u LEFT JOIN companies c ON c.id = u.company_id"
    " WHERE email = %s AND c.retired_at IS NULL",
)
_SHARE_OF_DEVICE = Statement(
    _Share,
    "SELECT u.id AS user_id, u.company_id FROM devices d JOIN users u ON u.id = d.user_id"
    " WHERE token_hash = %s AND email = %s AND d.created_at > %s::timestamptz",
)
_KNOWN_NETWORK = Command(
    "SELECT FROM devices d JOIN users u ON u.id = d.user_id"
    " WHERE email = %s AND network = %s AND d.created_at > %s::timestamptz LIMIT 1"
)
_USE_STEP = Command("UPDATE users SET totp_used_step = %(step)s WHERE id = %(id)s AND totp_used_step < %(step)s")
_STILL_HAS = Command("SELECT FROM users WHERE id = %s AND password_hash = %s FOR NO KEY UPDATE")
_BEGIN = Command("INSERT INTO sessions (token_hash, user_id, address, created_at, seen_at) VALUES (%s, %s, %s, %s, %s)")
_ADD_DEVICE = Command("INSERT INTO devices (token_hash, user_id, network, created_at) VALUES (%s, %s, %s, %s)")
_MOVE_DEVICE = Command("UPDATE devices SET network = %s WHERE token_hash = %s")
_KEEP_NEWEST = {
    table: Command(
        f"DELETE FROM {table} WHERE token_hash = ANY(ARRAY("
        f"SELECT token_hash FROM {table} WHERE user_id = %s ORDER BY created_at DESC, token_hash"
        f" OFFSET {MOST_BROWSERS}))"
    )
    for table in ("sessions", "devices")
}


def share_of_device(connection: Connection, device: str, email: str, *, now: datetime) -> str | None:
    """The owner of the share that sign-ins of a known browser use: the user's company, or the operator's own id, since
    a user has many browsers. None if the user has not signed in with this token before."""
    oldest = now - timedelta(days=DEVICE_DAYS)
    found = _SHARE_OF_DEVICE.first(connection, (hash_of_token(device), tidy_email(email), oldest))
    if found is None:
        return None
    return f"company {found.company_id}" if found.company_id is not None else f"operator {found.user_id}"


def is_known_device(connection: Connection, device: str, email: str, *, now: datetime) -> bool:
    """True when the user has signed in with this token before."""
    return share_of_device(connection, device, email, now=now) is not None


def sign_in(
    transaction: Transaction,
    *,
    email: str,
    password: str,
    code: str,
    device: str | None,
    network: str,
    contacts: Contacts,
    now: datetime,
) -> SignedIn | SignInRefused:
    """Checks e-mail, password and code. A recovery code is as good as a one-time code, once. A refusal does not tell
    which of them was wrong, nor whether the user exists. The password is checked outside of the transactions, because
    that takes long. `network` is an IPv4 address or a /64 of IPv6. Raises UnreadableContact if the secret of one-time
    codes is sealed with another key."""
    email = tidy_email(email)
    with transaction() as connection:
        if device is not None and not is_known_device(connection, device, email, now=now):
            device = None
        oldest = now - timedelta(days=DEVICE_DAYS)
        is_known_network = _KNOWN_NETWORK.first(connection, (email, network, oldest)) is not None
        counters = counters_of(email, network, known_device=device, is_known_network=is_known_network)
        checks = counter_of_checks(email, network, known_device=device)
        wait = take_attempt(connection, [*counters, checks], now=now)
        if wait:
            return SignInRefused(wait)
        user = _USER.first(connection, (email,))
    right = is_password(user.password_hash if user is not None else None, password)
    if user is None or not right:
        return SignInRefused()
    left: int | None = None
    with transaction() as connection:
        if _STILL_HAS.first(connection, (user.id, user.password_hash)) is None:
            return SignInRefused()  # the password was replaced meanwhile
        if user.totp_secret is not None:
            step = step_of_code(contacts.open(user.totp_secret) or "", code, now)
            if step is not None:
                if _USE_STEP.execute(connection, {"step": step, "id": user.id}).rowcount == 0:
                    return SignInRefused()
            elif use_recovery_code(connection, user.id, code):
                left = count_recovery_codes(connection, user.id)
                record_own_action(connection, Actor(email, f"{left} left"), Action("sign_in.use_recovery_code"))
            else:
                return SignInRefused()
        forgive(connection, counters)
        signed_in = _begin(connection, user.id, device=device, network=network, now=now)
    return replace(signed_in, recovery_codes_left=left)


def sign_in_by_openid(
    connection: Connection, user: BoundUser, *, device: str | None, network: str, now: datetime
) -> SignedIn:
    """Signs in the user to whom a proved account at the provider belongs. The provider decides whether a second factor
    is needed."""
    if device is not None and not is_known_device(connection, device, user.email, now=now):
        device = None
    return _begin(connection, user.id, device=device, network=network, now=now)


def _begin(connection: Connection, user_id: UUID, *, device: str | None, network: str, now: datetime) -> SignedIn:
    """A session in a browser, which is known from now on."""
    session = begin_session(connection, user_id, address=network, now=now)
    if device is None:
        device = add_device(connection, user_id, network=network, now=now)
    else:
        _MOVE_DEVICE.execute(connection, (network, hash_of_token(device)))
    return SignedIn(user_id, session, device)


def add_device(connection: Connection, user_id: UUID, *, network: str, now: datetime) -> str:
    """The token of a browser whose user has proved who they are. Guessing elsewhere does not slow it down."""
    token = new_token()
    _ADD_DEVICE.execute(connection, (hash_of_token(token), user_id, network, now))
    _KEEP_NEWEST["devices"].execute(connection, (user_id,))
    return token


def begin_session(connection: Connection, user_id: UUID, *, address: str, now: datetime) -> str:
    """The token of a new session, for a user who has proved who they are."""
    token = new_token()
    _BEGIN.execute(connection, (hash_of_token(token), user_id, address, now, now))
    _KEEP_NEWEST["sessions"].execute(connection, (user_id,))
    return token


def step_of_code(secret: str, code: str, now: datetime) -> int | None:
    """The time step of a one-time code, at most one away from now; None if the code belongs to no such step."""
    code = "".join(code.split())
    if not (len(code) == 6 and code.isascii() and code.isdecimal()):
        return None
    totp = pyotp.TOTP(secret, interval=_CODE_SECONDS)
    current = int(now.timestamp()) // _CODE_SECONDS
    for step in (current, current - 1, current + 1):
        if pyotp.utils.strings_equal(totp.at(step * _CODE_SECONDS), code):
            return step
    return None


class _Found(NamedTuple):
    user_id: UUID
    email: str
    role: str
    has_password: bool
    has_totp: bool
    has_openid: bool
    company_id: UUID | None
    company_name: str | None
    time_zone: str | None
    seen_at: datetime


_ALIVE = (
    f"seen_at > %(now)s::timestamptz - interval '{IDLE_HOURS} hours'"
    f" AND s.created_at > %(now)s::timestamptz - interval '{LONGEST_DAYS} days'"
)
_FIND = Statement(
    _Found,
    f"""
    SELECT u.id AS user_id, u.email, u.role, u.password_hash IS NOT NULL AS has_password,
           u.totp_secret IS NOT NULL AS has_totp, u.openid_subject IS NOT NULL AS has_openid,
           c.id AS company_id, c.name AS company_name, c.time_zone, s.seen_at
    FROM sessions s JOIN users u ON u.id = s.user_id
         LEFT JOIN companies c ON c.id = CASE WHEN u.company_id IS NULL THEN s.company_id ELSE u.company_id END
             AND c.retired_at IS NULL
    WHERE s.token_hash = %(hash)s AND {_ALIVE} AND (u.company_id IS NULL OR c.id IS NOT NULL)
    """,
)
_SEEN = Command("UPDATE sessions SET seen_at = %s WHERE token_hash = %s")


def find_session(connection: Connection, token: str, *, now: datetime) -> Session | None:
    """The session of this token; None if there is none, or it has ended."""
    token_hash = hash_of_token(token)
    row = _FIND.first(connection, {"hash": token_hash, "now": now})
    if row is None:
        return None
    if now - row.seen_at > _SEEN_EACH:
        _SEEN.execute(connection, (now, token_hash))
    return Session(
        row.user_id,
        row.email,
        Role(row.role),
        row.has_password,
        row.has_totp,
        row.has_openid,
        row.company_id,
        row.company_name,
        row.time_zone or "UTC",
    )


class ChoosableCompany(NamedTuple):
    id: UUID
    name: str


_COMPANIES = Statement(
    ChoosableCompany,
    "SELECT id, name FROM companies WHERE retired_at IS NULL AND strpos(lower(name), lower(%s)) > 0"
    " ORDER BY lower(name), id LIMIT %s",
)
_CHOOSE = Command(
    "UPDATE sessions s SET company_id = c.id FROM users u, companies c WHERE s.token_hash = %s AND u.id = s.user_id"
    " AND u.role = 'operator' AND c.id = %s AND c.retired_at IS NULL"
)


def choosable_companies(connection: Connection, text: str, *, limit: int) -> list[ChoosableCompany]:
    """The companies that an operator may choose: their names contain `text`."""
    return _COMPANIES.all(connection, (text, limit))


def choose_company(connection: Connection, token: str, company_id: UUID, by: Actor) -> bool:
    """Makes an operator's session show that company. Returns False if there is none, or the user is no operator."""
    if _CHOOSE.execute(connection, (hash_of_token(token), company_id)).rowcount == 0:
        return False
    record_about(connection, by, Action("account.choose_company"), "cmp", company_id, company_id=company_id)
    return True


_PASSWORD_OF = Statement(_User, "SELECT id, password_hash, totp_secret, totp_used_step FROM users WHERE id = %s")


def is_password_of(connection: Connection, user_id: UUID, password: str) -> bool:
    """Check the password of a user who changes how they sign in."""
    user = _PASSWORD_OF.first(connection, (user_id,))
    return is_password(user.password_hash if user is not None else None, password)


_END = Command("DELETE FROM sessions WHERE token_hash = %s")
_END_ALL = Command("DELETE FROM sessions WHERE user_id = %s")
_COUNT = Scalar(int, f"SELECT count(*) FROM sessions s WHERE user_id = %(user_id)s AND {_ALIVE}")


def sign_out(connection: Connection, token: str) -> None:
    _END.execute(connection, (hash_of_token(token),))


def sign_out_everywhere(connection: Connection, user_id: UUID, by: Actor) -> None:
    _END_ALL.execute(connection, (user_id,))
    record_own_action(connection, by, Action("sign_in.sign_out_everywhere"))


_END_EVERY_SESSION = Command("DELETE FROM sessions")
_END_EVERY_LINK = Command("DELETE FROM password_links")


def sign_out_everybody(connection: Connection) -> int:
    """Ends every session, and every link that sets a password. Returns how many sessions ended."""
    _END_EVERY_LINK.execute(connection)
    return _END_EVERY_SESSION.execute(connection).rowcount


def count_sessions(connection: Connection, user_id: UUID, *, now: datetime) -> int:
    """The number of browsers in which the user is signed in."""
    return _COUNT.one(connection, {"user_id": user_id, "now": now})


_FORGET = {
    table: Command(
        f"DELETE FROM {table} WHERE token_hash = ANY(ARRAY("
        f"SELECT token_hash FROM {table} WHERE created_at < %s LIMIT %s FOR UPDATE SKIP LOCKED))"
    )
    for table in ("sessions", "devices", "password_links", "openid_proofs")
}


def forget_sessions(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes ended sessions, known browsers and links, up to `limit` of each. `days` is how long sessions last."""
    kept = {"sessions": days, "devices": float(DEVICE_DAYS), "password_links": days, "openid_proofs": days}
    return max(
        forget.execute(connection, (now - timedelta(days=kept[table]), limit)).rowcount
        for table, forget in _FORGET.items()
    )

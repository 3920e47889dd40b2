"""Users of the console: what makes one, what ends with one, and how secrets are kept."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from cryptography.fernet import Fernet

from domain.accounts.contacts import Contacts
from domain.accounts.passwords import UnusablePassword, hash_password, is_password
from domain.accounts.sessions import (
    DEVICE_DAYS,
    LONGEST_DAYS,
    begin_session,
    count_sessions,
    find_session,
    forget_sessions,
    step_of_code,
)
from domain.accounts.tokens import form_token, is_form_token, is_of_company, new_token
from domain.accounts.users import (
    TOTP_SECRETS,
    UnknownUser,
    UnusableUser,
    create_user,
    find_user,
    list_users,
    make_password_link,
    remove_user,
    set_password_by_link,
    set_totp,
)
from domain.database.connections import Connection
from domain.ids import new_id
from domain.lifecycle import Role
from tests.factories import DOT, Fleet, make_fleet


def fresh_email() -> str:
    return f"{new_id().hex}@example.com"


def new_user(connection: Connection, fleet: Fleet, role: Role = Role.OWNER) -> UUID:
    return create_user(connection, DOT, email=fresh_email(), role=role, company_id=fleet.company_id)


def test_an_e_mail_address_names_one_user_in_any_case(connection: Connection, fleet: Fleet) -> None:
    email = fresh_email()
    user_id = create_user(connection, DOT, email=f" {email.title()} ", role=Role.OWNER, company_id=fleet.company_id)

    assert find_user(connection, email.upper()) == user_id
    with pytest.raises(UnusableUser, match="already"):
        create_user(connection, DOT, email=email, role=Role.VIEWER, company_id=make_fleet(connection).company_id)
    with pytest.raises(UnknownUser):
        find_user(connection, f"not-{email}")


@pytest.mark.parametrize(
    "email", ["", "ann", "@example.com", "ann@", "a b@example.com", "a\n@x", "a\x00@x", "a" * 200 + "@x"]
)
def test_a_text_that_is_no_address_is_refused(connection: Connection, fleet: Fleet, email: str) -> None:
    with pytest.raises(UnusableUser):
        create_user(connection, DOT, email=email, role=Role.OWNER, company_id=fleet.company_id)


def test_an_operator_belongs_to_no_company_and_others_to_one(connection: Connection, fleet: Fleet) -> None:
    with pytest.raises(UnusableUser, match="operator"):
        create_user(connection, DOT, email=fresh_email(), role=Role.OPERATOR, company_id=fleet.company_id)
    with pytest.raises(UnusableUser, match="operator"):
        create_user(connection, DOT, email=fresh_email(), role=Role.OWNER, company_id=None)


def test_a_companys_users_are_listed_without_others(connection: Connection, fleet: Fleet) -> None:
    user_id = new_user(connection, fleet)
    new_user(connection, make_fleet(connection))

    assert [user.id for user in list_users(connection, fleet.company_id)] == [user_id]
    assert len(list_users(connection, None)) >= 2


@pytest.mark.parametrize("password", ["", "elevenchars", "x" * 201, "aaaaaaaaaaaa", "somebody.long@example.com"])
def test_passwords_that_are_easy_to_guess_are_refused(password: str) -> None:
    with pytest.raises(UnusablePassword):
        hash_password(password, "somebody.long@example.com")


def test_only_the_hash_of_a_password_is_stored() -> None:
    hashed = hash_password("correct horse battery", "ann@example.com")

    assert "horse" not in hashed
    assert hashed != hash_password("correct horse battery", "ann@example.com")
    assert is_password(hashed, "correct horse battery")
    assert not is_password(hashed, "Correct horse battery")
    assert not is_password(None, "correct horse battery")
    assert not is_password("no hash at all", "correct horse battery")
    assert not is_password(hashed, "\ud800")


def test_only_the_newer_of_two_links_works_and_only_once(connection: Connection, fleet: Fleet, now: datetime) -> None:
    user_id = new_user(connection, fleet)
    first = make_password_link(connection, user_id, now=now)
    second = make_password_link(connection, user_id, now=now)

    assert not set_password_by_link(connection, first, "correct horse battery", now=now)
    assert set_password_by_link(connection, second, "correct horse battery", now=now)
    assert not set_password_by_link(connection, second, "correct horse battery", now=now)


def test_a_session_shows_its_users_company(connection: Connection, fleet: Fleet, now: datetime) -> None:
    user_id = new_user(connection, fleet, Role.VIEWER)
    token = begin_session(connection, user_id, address="192.0.2.1", now=now)

    session = find_session(connection, token, now=now)
    assert session is not None
    assert (session.user_id, session.role, session.company_id) == (user_id, Role.VIEWER, fleet.company_id)
    assert find_session(connection, token[:-1], now=now) is None
    assert count_sessions(connection, user_id, now=now) == 1
    remove_user(connection, user_id, DOT)
    assert find_session(connection, token, now=now) is None


def test_a_session_that_is_used_goes_on(connection: Connection, fleet: Fleet, now: datetime) -> None:
    token = begin_session(connection, new_user(connection, fleet), address="192.0.2.1", now=now)
    for hours in range(11, 24 * LONGEST_DAYS, 11):
        assert find_session(connection, token, now=now + timedelta(hours=hours)) is not None
    assert find_session(connection, token, now=now + timedelta(days=LONGEST_DAYS)) is None


def test_ended_sessions_browsers_and_links_are_deleted(connection: Connection, fleet: Fleet, now: datetime) -> None:
    user_id = new_user(connection, fleet)
    long_ago = now - timedelta(days=DEVICE_DAYS + 1)
    begin_session(connection, user_id, address="192.0.2.1", now=long_ago)
    make_password_link(connection, user_id, now=long_ago)
    kept = begin_session(connection, user_id, address="192.0.2.1", now=now)
    connection.execute(
        "INSERT INTO devices (token_hash, user_id, created_at) VALUES ('x', %s, %s)", (user_id, long_ago)
    )

    forget_sessions(connection, days=LONGEST_DAYS, now=now, limit=1000)

    assert find_session(connection, kept, now=now) is not None
    for table, left in (("sessions", 1), ("devices", 0), ("password_links", 0)):
        assert connection.execute(f"SELECT count(*) FROM {table} WHERE user_id = %s", (user_id,)).fetchone() == (left,)


def test_secrets_of_one_time_codes_are_sealed_and_sealed_again(connection: Connection, fleet: Fleet) -> None:
    user_id = new_user(connection, fleet)
    older, newer = (Fernet.generate_key().decode() for _ in range(2))

    def stored() -> str:
        row = connection.execute("SELECT totp_secret FROM users WHERE id = %s", (user_id,)).fetchone()
        assert row is not None
        return str(row[0])

    set_totp(connection, user_id, "ABCDEFGHIJKLMNOP", contacts=Contacts(older))
    assert "ABCDEFGHIJKLMNOP" not in stored()
    both = Contacts(f"{newer},{older}")
    assert TOTP_SECRETS.seal(connection, both).sealed >= 1
    assert Contacts(newer).open(stored()) == "ABCDEFGHIJKLMNOP"
    assert TOTP_SECRETS.seal(connection, both).sealed == 0


@pytest.mark.parametrize(
    ("code", "step"),
    # RFC 6238, appendix B, in six digits
    [("081804", 37037036), ("081 804", 37037036), ("08180", None), ("081805", None), ("²81804", None), ("", None)],
)
def test_one_time_codes_follow_the_standard(code: str, step: int | None) -> None:
    secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    then = datetime.fromtimestamp(1111111109, UTC)
    for away in (-30, 0, 30):
        assert step_of_code(secret, code, then + timedelta(seconds=away)) == step
    assert step_of_code(secret, code, then + timedelta(seconds=90)) is None


def test_a_form_token_belongs_to_one_cookie() -> None:
    token = new_token()
    assert is_form_token(form_token(token), token)
    assert not is_form_token(form_token(token), new_token())
    assert not is_form_token("\ud800", token)
    assert token not in form_token(token)


def test_a_form_token_names_the_company_of_its_page() -> None:
    token, company_id = new_token(), new_id()
    named = form_token(token, company_id)
    assert is_form_token(named, token)
    assert is_of_company(named, company_id)
    assert not is_of_company(named, new_id())
    assert is_of_company("", company_id), "a whole page is asked for, without a token"
    assert not is_of_company(form_token(token), company_id), "a page from before a company was chosen"
    assert is_of_company(form_token(token), None), "a page of somebody who chooses none"

"""An account at the provider is bound to one user, also when two bind it at the same moment."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from uuid import UUID, uuid4

from domain.accounts.openid import ProvedIdentity
from domain.accounts.openid_users import (
    Agreed,
    NoUser,
    UnboundUser,
    bind_proved_account,
    remember_proof,
    user_of_identity,
)
from domain.accounts.sessions import begin_session, find_session
from domain.accounts.users import StoredUser, create_user, list_users, make_password_link
from domain.database.connections import Connection, Database
from domain.lifecycle import Role
from tests.factories import DOT, make_fleet
from tests.service import eventually


def invited(connection: Connection, company_id: UUID, identity: ProvedIdentity, now: datetime) -> str:
    """The proof of a user with a password who has opened a new link with this account."""
    email = f"{uuid4().hex}@example.com"
    user_id = create_user(
        connection, DOT, email=email, role=Role.OWNER, company_id=company_id, password="correct horse battery"
    )
    link = make_password_link(connection, user_id, now=now)
    user = user_of_identity(connection, identity, link=link, now=now)
    assert isinstance(user, UnboundUser)
    return remember_proof(connection, identity, user, link=link, next_path="/", now=now)


def users_of(connection: Connection, company_id: UUID) -> list[tuple[StoredUser, int]]:
    """The users, each with the number of their links."""
    links = dict(connection.execute("SELECT user_id, count(*) FROM password_links GROUP BY user_id").fetchall())
    return [(user, links.get(user.id, 0)) for user in list_users(connection, company_id)]


def test_a_user_keeps_password_sessions_and_link_when_another_one_is_bound_at_the_same_moment(
    database: Database, now: datetime
) -> None:
    identity = ProvedIdentity("https://id.example.com", uuid4().hex, None)
    with database.transaction() as connection:
        company_id = make_fleet(connection).company_id
        first, second = (invited(connection, company_id, identity, now) for _ in range(2))
        sessions = [
            begin_session(connection, user.id, address="192.0.2.1", now=now)
            for user in list_users(connection, company_id)
        ]

    def bind(proof: str) -> Agreed | NoUser:
        with database.transaction() as connection:
            return bind_proved_account(connection, proof, now=now)

    with ThreadPoolExecutor(1) as threads, database.transaction() as observer:
        with database.transaction() as connection:
            assert isinstance(bind_proved_account(connection, first, now=now), Agreed)
            late = threads.submit(bind, second)
            eventually(lambda: observer.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
        assert late.result() is NoUser.OTHER_USER

    with database.transaction() as connection:
        found = sorted(users_of(connection, company_id), key=lambda one: one[0].has_openid)
        assert [(user.has_openid, user.has_password, links) for user, links in found] == [
            (False, True, 1),
            (True, False, 0),
        ]
        signed_in = [find_session(connection, one, now=now) for one in sessions]
        assert [one.email for one in signed_in if one is not None] == [found[0][0].email]

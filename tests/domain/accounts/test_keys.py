"""API keys: shown once, stored as a hash, gone at once when revoked."""

from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.keys import (
    Caller,
    NewKey,
    PresentedKey,
    UnknownScope,
    create_key,
    find_callers,
    list_keys,
    revoke_key,
    still_valid,
)
from domain.database.connections import Connection
from domain.ids import new_id
from domain.lifecycle import Environment
from tests.factories import DOT, Fleet, make_fleet
from tests.repeatable import examples
from tests.rows import named


def key(
    connection: Connection, fleet: Fleet, *scopes: str, live: bool = True, expires_at: datetime | None = None
) -> NewKey:
    return create_key(
        connection,
        fleet.company_id,
        DOT,
        name="TMS",
        environment=Environment.LIVE if live else Environment.SANDBOX,
        scopes=scopes or ["routes:read"],
        expires_at=expires_at,
    )


def test_a_key_shows_its_environment_and_begins_with_its_prefix(connection: Connection, fleet: Fleet) -> None:
    live, sandbox = key(connection, fleet), key(connection, fleet, live=False)

    assert live.key.startswith("svc_live_")
    assert sandbox.key.startswith("svc_test_")
    assert live.key.startswith(live.prefix)
    assert len(live.key) - len(live.prefix) == 32  # what the prefix gives away leaves 190 bits
    assert live.key != key(connection, fleet).key


@pytest.mark.parametrize(("cell", "named"), [(1, ""), (2, "c2_"), (9999, "c9999_")])
def test_a_key_names_the_cell_that_made_it_unless_that_is_the_first(
    connection: Connection, fleet: Fleet, cell: int, named: str
) -> None:
    more = {"name": "TMS", "scopes": ["routes:read"], "cell": cell}
    made = create_key(connection, fleet.company_id, DOT, environment=Environment.SANDBOX, **more)  # type: ignore[arg-type]

    assert made.key.startswith(f"svc_test_{named}")
    assert len(made.prefix) == len(f"svc_test_{named}") + 8
    assert len(made.key) - len(made.prefix) == 32
    assert [caller.key_id for caller in find_callers([PresentedKey.of(made.key)]).on(connection) if caller] == [made.id]


@pytest.mark.parametrize("start", ["svc_live_c0_", "svc_live_c02_", "svc_live_c12345_", "svc_live_C2_", "svc_live_c2"])
def test_a_key_of_no_cell_is_no_key(start: str) -> None:
    assert PresentedKey.of(start + "x" * 40).prefix is None


def test_a_key_leads_to_its_company_environment_and_scopes(connection: Connection, fleet: Fleet) -> None:
    made = key(connection, fleet, "routes:write", "routes:read", "routes:write", live=False)

    (caller,) = find_callers([PresentedKey.of(made.key)]).on(connection)

    scopes = frozenset({"routes:read", "routes:write"})
    assert caller == Caller(made.id, fleet.company_id, Environment.SANDBOX, scopes)
    assert caller.tenant == fleet.sandbox


def test_nothing_stored_holds_the_key(connection: Connection, fleet: Fleet) -> None:
    made = key(connection, fleet)

    (row,) = named(connection).execute("SELECT api_keys::text AS stored, hash FROM api_keys WHERE id = %s", (made.id,))

    secret = made.key.removeprefix(made.prefix)
    assert secret not in row.stored
    assert secret.encode() not in row.hash


def test_many_keys_are_found_at_once_in_order(connection: Connection, fleet: Fleet) -> None:
    first, second = key(connection, fleet), key(connection, make_fleet(connection))

    found = find_callers(
        [PresentedKey.of(key) for key in (second.key, "svc_live_unknown", first.key, second.key, "")]
    ).on(connection)

    assert [caller.key_id if caller else None for caller in found] == [second.id, None, first.id, second.id, None]


def test_a_revoked_key_is_refused_and_a_second_revocation_keeps_the_first_time(
    connection: Connection, fleet: Fleet
) -> None:
    made = key(connection, fleet)

    assert revoke_key(connection, made.id, DOT)
    (row,) = list_keys(connection, fleet.company_id)
    assert revoke_key(connection, made.id, DOT)

    assert find_callers([PresentedKey.of(made.key)]).on(connection) == [None]
    assert [one.revoked_at for one in list_keys(connection, fleet.company_id)] == [row.revoked_at]


def test_a_key_that_does_not_exist_cannot_be_revoked(connection: Connection) -> None:
    assert not revoke_key(connection, new_id(), DOT)


def test_an_expired_key_is_refused(connection: Connection, fleet: Fleet, now: datetime) -> None:
    past = key(connection, fleet, expires_at=now - timedelta(seconds=5))
    future = key(connection, fleet, expires_at=now + timedelta(hours=1))

    assert [
        caller is not None
        for caller in find_callers([PresentedKey.of(past.key), PresentedKey.of(future.key)]).on(connection)
    ] == [False, True]


def test_a_key_that_was_found_is_valid_until_it_or_its_company_ends(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    revoked, past, future = (
        key(connection, fleet),
        key(connection, fleet, expires_at=now - timedelta(seconds=5)),
        key(connection, fleet, expires_at=now + timedelta(hours=1)),
    )
    assert still_valid([revoked.id]).on(connection) == [True]
    revoke_key(connection, revoked.id, DOT)

    asked = [revoked.id, future.id, past.id, new_id(), future.id]
    assert still_valid(asked).on(connection) == [False, True, False, False, True]
    connection.execute("UPDATE companies SET retired_at = now() WHERE id = %s", (fleet.company_id,))
    assert still_valid([future.id]).on(connection) == [False]


def test_an_unknown_scope_is_refused(connection: Connection, fleet: Fleet) -> None:
    with pytest.raises(UnknownScope, match="no such scope: 'routes:delete'"):
        key(connection, fleet, "routes:read", "routes:delete")


def test_keys_are_listed_for_their_company_only_and_without_hashes(connection: Connection, fleet: Fleet) -> None:
    key(connection, make_fleet(connection))
    made = [key(connection, fleet).id for _ in range(3)]

    rows = list_keys(connection, fleet.company_id)

    assert [row.id for row in rows] == made
    assert "hash" not in rows[0]._fields


def test_text_that_cannot_be_a_key_finds_no_caller(connection: Connection, fleet: Fleet) -> None:
    made = key(connection, fleet)

    others = [PresentedKey.of(key) for key in (made.key + "\ud800", made.prefix, made.key[:-1] + "é")]
    assert find_callers(others).on(connection) == [None, None, None]


@hypothesis_settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_other_text_than_the_key_finds_no_caller(connection: Connection, fleet: Fleet, data: st.DataObject) -> None:
    made = key(connection, fleet)
    position = data.draw(st.integers(0, len(made.key) - 1))
    character = data.draw(st.characters())
    forged = data.draw(
        st.sampled_from(
            [
                made.key[:position] + character + made.key[position + 1 :],
                made.key + character,
                made.key[:position],
                made.key.swapcase(),
                character * 49,
                made.prefix,
            ]
        )
    )

    found = find_callers([PresentedKey.of(forged), PresentedKey.of(made.key)]).on(connection)

    assert (found[0] is not None) is (forged == made.key)
    assert found[1] is not None

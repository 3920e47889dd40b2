"""The rule that slows down guessing: free attempts, then waits that double, and no one else is held up."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.accounts.attempts import (
    ACCOUNT,
    ACCOUNT_FROM_NETWORK,
    DEVICE,
    LONGEST_WAIT,
    NETWORK,
    PASSWORD_CHECKS,
    SITE,
    AttemptCounter,
    Bound,
    counter_of_checks,
    forget_attempts,
    forgive,
    take_attempt,
)
from domain.accounts.attempts import counters_of as all_counters_of
from domain.database.connections import Connection
from tests.domain.accounts.test_users import fresh_email
from tests.repeatable import examples
from tests.rows import named

BOUNDS = st.sampled_from([DEVICE, ACCOUNT_FROM_NETWORK, ACCOUNT, NETWORK, SITE, PASSWORD_CHECKS])
PAUSES = st.lists(st.timedeltas(min_value=timedelta(), max_value=timedelta(hours=3)), max_size=60)
NOW = datetime.fromisoformat("2026-11-20T12:00:00+00:00")


def counters_of(
    email: str, network: str, known_device: str | None, *, is_known_network: bool = False
) -> list[AttemptCounter]:
    return all_counters_of(email, network, known_device=known_device, is_known_network=is_known_network)


def count_rows(connection: Connection) -> int:
    row = named(connection).execute("SELECT count(*) AS rows FROM sign_in_attempts").fetchone()
    assert row is not None
    return int(row.rows)


@given(BOUNDS, PAUSES)
def test_no_wait_is_longer_than_the_longest(bound: Bound, pauses: list[timedelta]) -> None:
    attempts, last_at, now = 0.0, NOW, NOW
    for pause in pauses:
        now += pause
        wait = bound.wait(attempts, last_at, now)
        assert timedelta() <= wait <= LONGEST_WAIT
        if not wait:
            attempts, last_at = bound.left_of(attempts, last_at, now) + 1, now


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(10))
@given(BOUNDS, st.integers(1, 14))
def test_few_guesses_are_possible_in_any_span_of_days(bound: Bound, days: int) -> None:
    """Somebody who never stops guessing gets the free ones, one for each leak or longest wait, and a few on the way."""
    attempts, last_at, now, made = 0.0, NOW, NOW, 0
    while now < NOW + timedelta(days=days):
        wait = bound.wait(attempts, last_at, now)
        if wait:
            now += wait
            continue
        attempts, last_at = bound.left_of(attempts, last_at, now) + 1, now
        made += 1
    steady = timedelta(days=days) / LONGEST_WAIT + timedelta(days=days) / bound.leak
    assert made <= bound.free + 20 + steady


@given(BOUNDS, st.integers(0, 1000), st.timedeltas(timedelta(), timedelta(days=40)))
def test_attempts_are_forgotten(bound: Bound, attempts: int, pause: timedelta) -> None:
    left = bound.left_of(attempts, NOW, NOW + pause)
    assert 0 <= left <= attempts
    assert left == 0 or pause < attempts * bound.leak


def test_attempts_are_free_first_and_then_wait(connection: Connection, now: datetime) -> None:
    counters = counters_of(fresh_email(), "192.0.2.1", None)
    for _ in range(ACCOUNT_FROM_NETWORK.free):
        assert take_attempt(connection, counters, now=now) == timedelta()

    assert take_attempt(connection, counters, now=now) == timedelta(seconds=1)
    assert take_attempt(connection, counters, now=now + timedelta(seconds=1)) == timedelta()
    wait = take_attempt(connection, counters, now=now + timedelta(seconds=1))
    assert timedelta(seconds=1.9) < wait <= timedelta(seconds=2)


def test_other_addresses_known_browsers_and_other_accounts_do_not_wait(connection: Connection, now: datetime) -> None:
    email = fresh_email()
    while not take_attempt(connection, counters_of(email, "192.0.2.2", None), now=now):
        pass

    assert not take_attempt(connection, counters_of(email, "192.0.2.3", None), now=now)
    assert not take_attempt(connection, counters_of(email, "192.0.2.2", "a known browser's token"), now=now)
    assert not take_attempt(connection, counters_of(fresh_email(), "192.0.2.2", None), now=now)


def test_an_address_that_guesses_at_many_accounts_waits_too(connection: Connection, now: datetime) -> None:
    for _ in range(NETWORK.free):
        assert not take_attempt(connection, counters_of(fresh_email(), "192.0.2.4", None), now=now)

    assert take_attempt(connection, counters_of(fresh_email(), "192.0.2.4", None), now=now)
    assert not take_attempt(connection, counters_of(fresh_email(), "192.0.2.4", "a known browser's token"), now=now)


def test_a_success_frees_the_account_but_not_the_address(connection: Connection, now: datetime) -> None:
    mine = counters_of(fresh_email(), "192.0.2.5", None)
    for _ in range(NETWORK.free - 1):
        take_attempt(connection, counters_of(fresh_email(), "192.0.2.5", None), now=now)
    assert not take_attempt(connection, mine, now=now)
    forgive(connection, mine)

    assert not take_attempt(connection, mine, now=now)
    assert take_attempt(connection, counters_of(fresh_email(), "192.0.2.5", None), now=now)


@pytest.mark.parametrize("device", [None, "a known browser's token"])
def test_right_passwords_are_limited_too(connection: Connection, now: datetime, device: str | None) -> None:
    """Somebody who knows one could keep the processors busy. Neither another account nor another network waits."""
    email, network = fresh_email(), "192.0.2.6"
    mine, checks, made = counters_of(email, network, device), counter_of_checks(email, network, known_device=device), 0
    while not take_attempt(connection, [*mine, checks], now=now):
        forgive(connection, mine)
        made += 1

    assert made == PASSWORD_CHECKS.free
    for others in ((fresh_email(), network, device), (email, "192.0.2.7", None)):
        checks_of_others = counter_of_checks(*others[:2], known_device=others[2])
        assert not take_attempt(connection, [*counters_of(*others), checks_of_others], now=now)
    assert not take_attempt(connection, [*mine, checks], now=now + timedelta(minutes=1))


def test_an_account_has_a_limit_wherever_the_guesses_come_from(connection: Connection, now: datetime) -> None:
    email = fresh_email()
    for number in range(ACCOUNT.free):
        assert not take_attempt(connection, counters_of(email, f"198.51.100.{number}", None), now=now)

    assert take_attempt(connection, counters_of(email, "203.0.113.1", None), now=now)
    assert not take_attempt(connection, counters_of(email, "203.0.113.2", "a known browser's token"), now=now)
    assert not take_attempt(connection, counters_of(email, "203.0.113.3", None, is_known_network=True), now=now)
    assert not take_attempt(connection, counters_of(fresh_email(), "203.0.113.1", None), now=now)


def test_networks_of_one_site_have_a_limit_together(connection: Connection, now: datetime) -> None:
    networks = iter(f"2001:db8:7:{number:x}::/64" for number in range(1 << 16))
    for _ in range(SITE.free):
        assert not take_attempt(connection, counters_of(fresh_email(), next(networks), None), now=now)

    assert take_attempt(connection, counters_of(fresh_email(), next(networks), None), now=now)
    assert not take_attempt(connection, counters_of(fresh_email(), "2001:db8:8::/64", None), now=now)


def test_refused_attempts_add_no_rows(connection: Connection, now: datetime) -> None:
    for _ in range(NETWORK.free):
        assert not take_attempt(connection, counters_of(fresh_email(), "192.0.2.8", None), now=now)
    before = count_rows(connection)

    for _ in range(60):
        assert take_attempt(connection, counters_of(fresh_email(), "192.0.2.8", None), now=now)

    assert count_rows(connection) == before


def test_a_clock_that_was_ahead_locks_no_user_out(connection: Connection, now: datetime) -> None:
    mine, ahead = counters_of(fresh_email(), "192.0.2.9", None), now + timedelta(hours=6)
    while not (wait := take_attempt(connection, mine, now=ahead)):
        pass
    assert wait == timedelta(seconds=1)

    assert take_attempt(connection, mine, now=now) == timedelta(seconds=1)
    assert take_attempt(connection, mine, now=now + timedelta(seconds=1)) == timedelta()


@given(BOUNDS, st.integers(0, 1000), st.timedeltas(timedelta(), timedelta(days=40)))
def test_no_wait_begins_in_the_future(bound: Bound, attempts: int, ahead: timedelta) -> None:
    assert bound.wait(attempts, NOW + ahead, NOW) == bound.wait(attempts, NOW, NOW) <= LONGEST_WAIT


def test_attempts_that_no_longer_count_are_deleted(connection: Connection, now: datetime) -> None:
    connection.execute("DELETE FROM sign_in_attempts")
    take_attempt(connection, counters_of(fresh_email(), "192.0.2.6", None), now=now)
    in_an_hour = now + timedelta(hours=1, seconds=1)
    take_attempt(connection, counters_of(fresh_email(), "192.0.2.7", None), now=in_an_hour)

    assert forget_attempts(connection, days=0, now=in_an_hour, limit=1000) == 3
    assert forget_attempts(connection, days=0, now=in_an_hour, limit=1000) == 0
    assert count_rows(connection) == 3

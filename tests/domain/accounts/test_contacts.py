"""Contacts are stored sealed where a key is set, can be read with an older key, and stay what they are without one."""

import base64
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
import structlog
from pydantic import SecretStr
from structlog.testing import capture_logs

from domain.accounts.companies import lock_company, set_policy
from domain.accounts.contacts import Contacts, UnreadableContact
from domain.accounts.policy import Policy
from domain.database.connections import Connection, Database
from domain.housekeeping.sealing import seal_stored
from domain.routes.intake.fleet_changes import import_drivers
from domain.settings import CONTACT_KEY_FILE, Settings, UnusableSetting, get_settings
from tests.conftest import own_database
from tests.domain.helpers import deliver, imported, planned_by_hand
from tests.domain.notices.subscriptions import subscribe
from tests.factories import DOT, Fleet, make_fleet
from tests.rows import named
from tests.service import eventually

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

OTHER_KEY = base64.urlsafe_b64encode(b"the same in every parallel worker"[:32]).decode()
URL = "mailtos://dispatch:secret@example.org?to=ann@example.org"


def new_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


@pytest.fixture(scope="module")
def empty() -> Iterator[Database]:
    """All secrets of all companies are sealed: no other test's may stand there."""
    with own_database("contacts") as one:
        yield one


@pytest.fixture
def connection(empty: Database) -> Iterator[Connection]:
    with empty.transaction() as connection:
        yield connection
        raise psycopg.Rollback


def stored_contact(connection: Connection, fleet: Fleet) -> str:
    row = named(connection).execute("SELECT contact FROM drivers WHERE id = %s", (fleet.drivers[0],)).fetchone()
    assert row is not None
    return str(row.contact)


@pytest.fixture
def load(connection: Connection, fleet: Fleet, tmp_path: Path) -> Callable[..., tuple[int, int, int]]:
    """Imports a row of Ann Lee."""

    def load(contacts: Contacts, contact: str = URL, display_name: str = "") -> tuple[int, int, int]:
        path = tmp_path / "drivers.csv"
        path.write_text(f"name,external_id,display_name,contact\nAnn Lee,D-1,{display_name},{contact}\n")
        report = import_drivers(connection, fleet.company_id, path, contacts=contacts)
        return report.created, report.updated, report.unchanged

    return load


Load = Callable[..., tuple[int, int, int]]


def test_an_imported_contact_is_stored_sealed_and_the_same_file_changes_nothing(
    connection: Connection, fleet: Fleet, load: Load
) -> None:
    contacts = Contacts(new_key())

    assert load(contacts) == (0, 1, 0)
    stored = stored_contact(connection, fleet)
    assert "secret" not in stored
    assert contacts.open(stored) == URL
    assert load(contacts) == (0, 0, 1)
    assert load(contacts, URL.replace("ann", "bo")) == (0, 1, 0)
    assert load(contacts, "-") == (0, 1, 0)
    assert stored_contact(connection, fleet) == "None"


def test_the_message_url_of_a_company_is_stored_sealed(connection: Connection, fleet: Fleet) -> None:
    contacts = Contacts(new_key())

    shown = set_policy(connection, fleet.company_id, Policy(message_url=URL), DOT, contacts=contacts)

    row = named(connection).execute("SELECT message_url FROM companies WHERE id = %s", (fleet.company_id,)).fetchone()
    assert row is not None
    assert "secret" not in row.message_url
    assert shown.message_url == contacts.open(row.message_url) == URL


def test_contacts_sealed_with_an_older_key_are_read_and_sealed_with_the_newest(
    connection: Connection, fleet: Fleet, load: Load
) -> None:
    old, new = new_key(), new_key()
    load(Contacts())
    set_policy(connection, fleet.company_id, Policy(message_url=URL), DOT, contacts=Contacts(old))
    subscribe(connection, fleet.company_id, contacts=Contacts(old))
    both = Contacts(f"{new}, {old}")

    assert seal_stored(connection, both) == (3, 0)
    assert seal_stored(connection, both) == (0, 0)
    assert Contacts(new).open(stored_contact(connection, fleet)) == URL
    assert seal_stored(connection, Contacts(old)) == (0, 3)
    assert seal_stored(connection, Contacts()) == (0, 0)
    with pytest.raises(UnreadableContact):
        Contacts(old).open(stored_contact(connection, fleet))


def test_sealing_and_an_import_of_drivers_lock_in_the_same_order() -> None:
    contacts = Contacts(new_key())

    def set_contact(connection: Connection, driver_id: UUID) -> None:
        connection.execute("UPDATE drivers SET contact = %s WHERE id = %s", (URL, driver_id))

    with own_database("sealing") as database, ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            for driver_id in fleet.drivers:
                set_contact(connection, driver_id)

        def seal() -> tuple[int, int]:
            with database.transaction() as connection:
                return seal_stored(connection, contacts)

        with database.transaction() as importing:
            lock_company(importing, fleet.company_id)
            set_contact(importing, fleet.drivers[1])
            sealing = threads.submit(seal)
            eventually(lambda: importing.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
            set_contact(importing, fleet.drivers[0])

        assert sealing.result() == (2, 0)


def test_an_import_with_the_wrong_key_loses_no_contact(connection: Connection, fleet: Fleet, load: Load) -> None:
    right, wrong = Contacts(new_key()), Contacts(new_key())
    load(right)

    for contacts in (wrong, Contacts()):
        assert load(contacts, contact="", display_name=f"Annie {id(contacts)}") == (0, 1, 0)
        assert right.open(stored_contact(connection, fleet)) == URL


def test_contacts_are_stored_unsealed_without_a_key_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("domain.accounts.contacts.log", structlog.get_logger())  # one that no other test has configured
    contacts = Contacts()
    with capture_logs() as logs:
        assert contacts.seal(URL) == contacts.seal(URL) == URL
        assert contacts.seal(None) is None
    assert [line["event"] for line in logs] == ["contacts.stored_in_clear"]


@pytest.mark.parametrize("keys", [None, OTHER_KEY])
def test_a_message_whose_contact_cannot_be_read_is_retried(
    connection: Connection, fleet: Fleet, load: Load, settings: Settings, now: datetime, keys: str | None
) -> None:
    right = new_key()
    load(Contacts(right))
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)
    blind = settings.model_copy(update={"contact_key": SecretStr(keys) if keys else None})

    status = deliver(connection, message_id, settings=blind, now=now)

    assert status == "pending"
    row = named(connection).execute("SELECT * FROM messages WHERE id = %s", (message_id,)).fetchone()
    assert row is not None
    assert "FUELROUTE_CONTACT_KEY" in row.error
    assert "sealed:" not in f"{row.error}{row.channel}"
    assert now < row.retry_at < now + timedelta(minutes=5)


@pytest.mark.parametrize("keys", ["secret", "c2VjcmV0", f"{OTHER_KEY},", "ключ"])
def test_an_unusable_key_is_reported_without_being_shown(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY", keys)
    get_settings.cache_clear()
    with pytest.raises(UnusableSetting, match="FUELROUTE_CONTACT_KEY") as refusal:
        get_settings()
    get_settings.cache_clear()
    assert keys not in str(refusal.value)


def test_the_key_of_the_embedded_stack_is_for_its_own_database_only(tmp_path: Path) -> None:
    (tmp_path / CONTACT_KEY_FILE).write_text(key := new_key())
    given = new_key()

    assert Settings(data=tmp_path).contact_keys() == key
    assert Settings(data=tmp_path, database_url="postgresql://elsewhere/db").contact_keys() is None
    assert Settings(data=tmp_path, contact_key=SecretStr(given)).contact_keys() == given

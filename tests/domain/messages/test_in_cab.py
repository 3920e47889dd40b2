"""Messages in the cab, to fakes of Samsara and Motive over real HTTP: never twice, whatever fails."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from domain import clock
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.companies import UnusablePolicy, set_policy
from domain.accounts.contact_urls import fault_of
from domain.accounts.contacts import IN_CLEAR
from domain.accounts.policy import Policy
from domain.connectors.connectors import ConnectorValues, add_connector, pause_connector
from domain.database.connections import Database
from domain.ids import shown_id
from domain.messages.message_life import MessageStatus
from domain.messages.message_text import fitted, with_link
from domain.messages.read_status import ask_read_status, claim_unread, read_status_jobs, store_read
from domain.messages.resending import CannotResend, requeue
from domain.queue.jobs import ask_read_status_job
from domain.settings import Settings
from tests.domain.messages.loads import PATIENT_SECONDS, Load
from tests.factories import DOT
from tests.rows import named
from tests.vendors.motive import Motive, running_motive
from tests.vendors.samsara import MOST_CHARACTERS, Samsara, running_samsara
from tests.vendors.vendor import HOST, Answer, Fault, Vendor

DRIVER = 4242
SHORT_SECONDS = 4.0
"""The wait for a vendor that hangs."""


@pytest.fixture
def samsara() -> Iterator[Samsara]:
    with running_samsara() as vendor:
        yield vendor


@pytest.fixture
def motive() -> Iterator[Motive]:
    with running_motive() as vendor:
        yield vendor


def planned(database: Database, settings: Settings, now: datetime, url: str, vendor: Vendor, **changes: Any) -> Load:
    """A load whose driver's contact is in the cab, of a company with a connector of the vendor."""
    allowing = settings.model_copy(update={"connector_allowed_hosts": HOST})
    load = Load.planned(database, allowing, now, url, **changes)
    kind = type(vendor).__name__.lower()
    with database.transaction() as connection:
        add_connector(
            connection,
            load.fleet.live,
            ConnectorValues(kind, {"token": vendor.token}, url=vendor.url),
            DOT,
            allowed=AllowedHosts.read(HOST),
            contacts=IN_CLEAR,
        )
    return load


def attempt(load: Load, *, seconds: float = 0, hangs: bool = False) -> MessageStatus | None:
    """One attempt, at a vendor that hangs or answers."""
    claimed = load.claimed(seconds=seconds)
    fault = load.hand_over(claimed, timeout_seconds=SHORT_SECONDS if hangs else PATIENT_SECONDS)
    return load.settle(claimed, fault, seconds=seconds)


def test_samsara_gets_the_whole_message_for_its_driver(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)

    assert attempt(load) is MessageStatus.SENT
    (sent,) = samsara.messages
    row = load.row()
    assert (sent.driver_id, sent.text, row.channel) == (DRIVER, row.text, "samsara")


def test_motive_gets_it_in_the_name_of_the_sender(
    database: Database, settings: Settings, now: datetime, motive: Motive
) -> None:
    load = planned(database, settings, now, f"motive://{DRIVER}?from=7", motive)

    assert attempt(load) is MessageStatus.SENT
    (sent,) = motive.messages
    assert (sent.recipient_id, sent.body, sent.sender) == (DRIVER, load.row().text, "7")


def test_a_contact_without_an_id_means_the_driver_s_external_id(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, "samsara://", samsara)
    with database.transaction() as connection:
        connection.execute("UPDATE drivers SET external_id = '77' WHERE id = %s", (load.fleet.drivers[0],))

    assert attempt(load) is MessageStatus.SENT
    assert [one.driver_id for one in samsara.messages] == [77]


def test_without_an_id_or_a_connector_the_error_says_what_to_do(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, "samsara://", samsara)
    with database.transaction() as connection:
        connection.execute("UPDATE drivers SET external_id = 'ann' WHERE id = %s", (load.fleet.drivers[0],))
    assert attempt(load) is MessageStatus.PENDING
    assert "samsara://4242" in load.row().error

    other = planned(database, settings, now, f"motive://{DRIVER}", samsara)
    assert attempt(other) is MessageStatus.PENDING
    assert "no connector of Motive" in other.row().error
    assert not samsara.messages


def test_a_paused_connector_sends_nothing(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    with database.transaction() as connection:
        (row,) = named(connection).execute("SELECT id FROM connectors WHERE company_id = %s", (load.fleet.company_id,))
        pause_connector(connection, load.fleet.company_id, row.id, DOT, now=now)

    assert attempt(load) is MessageStatus.PENDING
    assert "not paused" in load.row().error
    assert not samsara.messages


@pytest.mark.parametrize("fault", ["error", "limit", "hang", "cut", "forbidden"])
def test_a_fault_of_samsara_sends_the_message_once_in_the_end(
    database: Database, settings: Settings, now: datetime, samsara: Samsara, fault: Fault
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    samsara.fail(fault)

    assert attempt(load, hangs=fault == "hang") is MessageStatus.PENDING
    error = load.row().error
    assert samsara.token not in error
    assert "Samsara" in error
    assert attempt(load, seconds=120) is MessageStatus.SENT

    # a hanging or cut answer may come after Samsara took the message, which is then found in its list
    assert [one.text for one in samsara.messages] == [load.row().text]


def test_while_samsara_cannot_list_messages_none_is_repeated(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    samsara.fail("cut")
    assert attempt(load) is MessageStatus.PENDING
    samsara.fail("not json")
    assert attempt(load, seconds=60) is MessageStatus.PENDING
    assert "not known" in load.row().error

    assert len(samsara.messages) == 1
    assert attempt(load, seconds=600) is MessageStatus.SENT
    assert len(samsara.messages) == 1


def test_a_worker_that_crashed_after_samsara_took_the_message_does_not_repeat_it(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    assert load.hand_over(load.claimed()) is None  # the worker crashes here

    assert attempt(load, seconds=60) is MessageStatus.SENT
    assert len(samsara.messages) == 1


def test_a_message_that_became_a_correction_is_still_the_one_that_samsara_has(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    assert load.hand_over(load.claimed()) is None  # the worker crashes here
    with database.transaction() as connection:
        connection.execute("UPDATE messages SET text = 'CORRECTED ' || text WHERE id = %s", (load.message_id,))

    assert attempt(load, seconds=60) is MessageStatus.SENT
    assert len(samsara.messages) == 1


@pytest.mark.parametrize("fault", ["error", "hang", "cut"])
def test_a_message_that_motive_may_have_is_not_repeated_until_somebody_has_asked(
    database: Database, settings: Settings, now: datetime, motive: Motive, fault: Fault
) -> None:
    load = planned(database, settings, now, f"motive://{DRIVER}", motive)
    motive.fail(fault)

    assert attempt(load, hangs=fault == "hang") is MessageStatus.FAILED
    assert "ask the driver" in load.row().error
    with database.transaction() as connection:
        tenant, later = load.fleet.live, now + timedelta(seconds=60)
        with pytest.raises(CannotResend, match="ask the driver first"):
            requeue(connection, tenant, load.route_id, load.message_id, even_if_in_doubt=False, now=later)
        requeue(connection, tenant, load.route_id, load.message_id, even_if_in_doubt=True, now=later)
    before = len(motive.messages)
    assert attempt(load, seconds=61) is MessageStatus.SENT
    assert len(motive.messages) == before + 1


@pytest.mark.parametrize("status", [202, 207, 520, 522, 524, 599])
def test_an_answer_that_is_no_refusal_leaves_the_message_to_somebody(
    database: Database,
    settings: Settings,
    now: datetime,
    motive: Motive,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    """Motive took the message. Networks in front of vendors answer 520 to 599 when they know nothing of it."""
    take = motive.answer
    monkeypatch.setattr(motive, "answer", lambda request: take(request)._replace(status=status))
    load = planned(database, settings, now, f"motive://{DRIVER}", motive)

    assert attempt(load) is MessageStatus.FAILED
    assert "ask the driver" in load.row().error
    assert len(motive.messages) == 1


@pytest.mark.parametrize("status", [202, 524])
def test_what_samsara_took_with_another_answer_is_found_in_its_list(
    database: Database,
    settings: Settings,
    now: datetime,
    samsara: Samsara,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    with monkeypatch.context() as patch:
        take = samsara.answer
        patch.setattr(samsara, "answer", lambda request: take(request)._replace(status=status))
        assert attempt(load) is MessageStatus.PENDING
    assert load.row().claimed_until is not None, "it may have arrived"

    assert attempt(load, seconds=120) is MessageStatus.SENT
    assert len(samsara.messages) == 1


@pytest.mark.parametrize("status", [302, 408, 503])
def test_an_answer_that_says_that_nothing_was_taken_is_followed_by_another_attempt(
    database: Database,
    settings: Settings,
    now: datetime,
    motive: Motive,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    load = planned(database, settings, now, f"motive://{DRIVER}", motive)
    with monkeypatch.context() as patch:
        patch.setattr(motive, "answer", lambda _: Answer({}, status))
        assert attempt(load) is MessageStatus.PENDING

    assert attempt(load, seconds=120) is MessageStatus.SENT
    assert len(motive.messages) == 1


def test_what_motive_puts_off_after_somebody_has_asked_is_tried_again_until_an_attempt_is_in_doubt(
    database: Database, settings: Settings, now: datetime, motive: Motive
) -> None:
    load = planned(database, settings, now, f"motive://{DRIVER}", motive)
    motive.fail("error")
    assert attempt(load) is MessageStatus.FAILED
    with database.transaction() as connection:
        asked_at = now + timedelta(seconds=60)
        requeue(connection, load.fleet.live, load.route_id, load.message_id, even_if_in_doubt=True, now=asked_at)

    motive.fail("limit", "forbidden")
    assert attempt(load, seconds=61) is MessageStatus.PENDING
    assert attempt(load, seconds=200) is MessageStatus.PENDING
    assert load.hand_over(load.claimed(seconds=400)) is None  # the worker crashes here
    assert attempt(load, seconds=900) is MessageStatus.FAILED
    assert len(motive.messages) == 1


def test_a_worker_that_crashed_while_motive_was_asked_does_not_repeat_it(
    database: Database, settings: Settings, now: datetime, motive: Motive
) -> None:
    load = planned(database, settings, now, f"motive://{DRIVER}", motive)
    assert load.hand_over(load.claimed()) is None  # the worker crashes here

    assert attempt(load, seconds=60) is MessageStatus.FAILED
    assert len(motive.messages) == 1


@pytest.mark.parametrize("fault", ["limit", "forbidden"])
def test_what_motive_surely_did_not_take_is_tried_again(
    database: Database, settings: Settings, now: datetime, motive: Motive, fault: Fault
) -> None:
    load = planned(database, settings, now, f"motive://{DRIVER}", motive)
    motive.fail(fault)
    assert attempt(load) is MessageStatus.PENDING
    assert attempt(load, seconds=60) is MessageStatus.SENT
    assert len(motive.messages) == 1


def test_a_worker_that_stood_still_until_its_claim_ran_out_repeats_nothing_in_the_cab(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    stood_still = load.claimed()
    assert attempt(load, seconds=60) is MessageStatus.SENT, "another worker found that Samsara does not list it"

    assert load.settle(stood_still, load.hand_over_late(stood_still), seconds=61) is None
    assert len(samsara.messages) == 1


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("90", 90),
        ("5", 30),
        ("-7", 30),
        ("Wed, 21 Oct 2020 07:28:00 GMT", 60),
        ("{in_ten_minutes}", 600),
        ("inf", 3600),
        ("nan", 3600),
        ("1e9", 3600),
    ],
)
def test_a_vendor_is_left_alone_as_long_as_it_asks_for_an_hour_at_most(
    database: Database,
    settings: Settings,
    now: datetime,
    motive: Motive,
    monkeypatch: pytest.MonkeyPatch,
    retry_after: str,
    seconds: float,
) -> None:
    now = now.replace(microsecond=0)
    monkeypatch.setattr(clock, "now", lambda: now)
    date = format_datetime(now + timedelta(minutes=10), usegmt=True)
    headers = {"Retry-After": retry_after.replace("{in_ten_minutes}", date)}
    monkeypatch.setattr(motive, "answer", lambda _: Answer({}, 429, headers))
    load = planned(database, settings, now, f"motive://{DRIVER}", motive)

    assert attempt(load) is MessageStatus.PENDING
    assert load.row().retry_at == now + timedelta(seconds=seconds)


def test_an_unknown_driver_is_named_in_the_error(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    samsara.drivers = {1}
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    assert attempt(load) is MessageStatus.PENDING
    assert load.row().error == f"Samsara refused the message: is {DRIVER} the id of a driver in Samsara?"


def test_an_address_inside_the_network_is_not_called(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    load.settings = load.settings.model_copy(update={"connector_allowed_hosts": ""})
    assert attempt(load) is MessageStatus.PENDING
    assert "not on the public internet" in load.row().error
    assert not samsara.requests


def test_a_text_that_is_too_long_ends_after_a_whole_fuel_stop_and_keeps_its_id() -> None:
    stops = [line for number in range(1, 21) for line in (f"{number}. {'Plaza ' * 20}", "Mile 5: 9 gal", "https://map")]
    text = "\n".join(["Fuel plan for A", "To: B", *stops, "20 fuel stops", "Message msg_1"])
    shorter = fitted(text, MOST_CHARACTERS)

    assert len(shorter) <= MOST_CHARACTERS
    *_, before, cut, last = shorter.split("\n")
    assert (before, last) == ("https://map", "Message msg_1")
    kept = shorter.count("https://map")
    assert cut == f"Cut here, after fuel stop {kept} of 20: the app takes no more. Ask dispatch for the others."
    assert len(fitted(text, len(shorter) + len("\n".join(stops[:3])) + 3)) > len(shorter), "it keeps what fits"
    assert fitted(text, len(text)) == text


def test_a_text_that_is_too_long_keeps_the_link_to_the_page_that_shows_the_rest() -> None:
    stops = [line for number in range(1, 21) for line in (f"{number}. {'Plaza ' * 20}", "Mile 5: 9 gal", "https://map")]
    text = "\n".join(["Fuel plan for A", "To: B", *stops, "20 fuel stops", "Message msg_1"])
    address = "https://drive.example.com/d/token"
    shorter = fitted(with_link(text, address), MOST_CHARACTERS)

    assert len(shorter) <= MOST_CHARACTERS
    *_, cut, link, last = shorter.split("\n")
    assert cut.startswith("Cut here")
    assert (link, last) == (f"Your trip on a page: {address}", "Message msg_1")


@pytest.mark.parametrize(
    "url", ["samsara://ann", "samsara://1/2", "samsara://1?from=2", "motive://1?to=2", "motive://" + "1" * 20]
)
def test_a_wrong_contact_in_the_cab_is_refused_with_an_example(url: str) -> None:
    fault = fault_of(url, in_cab=True)
    assert fault is not None
    assert "://4242" in fault


def test_only_messages_to_drivers_go_into_the_cab(database: Database, settings: Settings, now: datetime) -> None:
    assert fault_of("samsara://1", in_cab=True) is None
    assert "drivers' messages alone" in (fault_of("samsara://1") or "")


def test_a_company_s_message_address_may_be_in_the_cab(load: Load) -> None:
    with load.database.transaction() as connection:
        set_policy(connection, load.fleet.company_id, Policy(message_url="motive://?from=9"), DOT, contacts=IN_CLEAR)
        with pytest.raises(UnusablePolicy, match="motive://4242"):
            set_policy(connection, load.fleet.company_id, Policy(message_url="motive://x"), DOT, contacts=IN_CLEAR)


# --- Read ------------------------------------------------------------------------------------------------------


def asked(load: Load, now: datetime) -> Any:
    company_id = load.fleet.company_id
    with load.database.transaction() as connection:
        unread = claim_unread(connection, company_id, now=now)
    if unread is None:
        return None
    read = ask_read_status(unread, load.settings, now=now)
    if isinstance(read, list):
        with load.database.transaction() as connection:
            store_read(connection, company_id, read, now=now)
    return read


def test_a_message_that_samsara_says_is_read_is_known_as_read(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    now = datetime.now(now.tzinfo)  # the fake knows when it got a message
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    attempt(load)
    with database.transaction() as connection:
        assert ask_read_status_job(load.fleet.company_id) in read_status_jobs(connection, now=now)
    assert asked(load, now) == []
    assert asked(load, now) is None, "another worker has just asked"

    samsara.messages[0].is_read = True
    later = now + timedelta(minutes=2)
    assert asked(load, later) == [load.message_id]
    assert load.row().read_at == later
    with database.transaction() as connection:
        assert ask_read_status_job(load.fleet.company_id) not in read_status_jobs(connection, now=later)


def test_a_driver_s_own_text_with_an_id_marks_no_message_of_another_company(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    now = datetime.now(now.tzinfo)
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    other = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    attempt(load)
    attempt(other)
    samsara.messages[0].is_read = samsara.messages[1].is_read = True
    assert asked(load, now) == [load.message_id]
    assert other.row().read_at is None


@pytest.mark.parametrize("fault", ["error", "limit", "hang", "cut", "not json", "forbidden"])
def test_a_fault_leaves_the_message_unread_until_the_next_time(
    database: Database, settings: Settings, now: datetime, samsara: Samsara, fault: Fault
) -> None:
    now = datetime.now(now.tzinfo)
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    attempt(load)
    samsara.messages[0].is_read = True
    samsara.fail(fault)
    assert not isinstance(asked(load, now), list)
    assert asked(load, now + timedelta(minutes=1)) == [load.message_id]


def test_old_messages_and_those_of_other_gateways_are_not_asked_for(
    database: Database, settings: Settings, now: datetime, samsara: Samsara
) -> None:
    now = datetime.now(now.tzinfo)
    load = planned(database, settings, now, f"samsara://{DRIVER}", samsara)
    attempt(load)
    assert shown_id("msg", load.message_id) in samsara.messages[0].text
    assert asked(load, now + timedelta(hours=25)) is None
    with database.transaction() as connection:
        connection.execute("UPDATE messages SET channel = 'mailtos' WHERE id = %s", (load.message_id,))
    assert asked(load, now) is None

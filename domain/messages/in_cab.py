"""Messages to drivers through the app in their cab: Samsara's or Motive's. The company's connector has the credential.

A message must not reach the driver twice. Samsara lists what was sent, so before an attempt is repeated we search the
list for the message. Motive has no such list, so an attempt that may have arrived is the last one: a person asks the
driver, and sends the message again.

Samsara also tells whether the driver has read a message. Motive's public description has no field for it."""

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contact_urls import InCabContact, InCabVendor
from domain.accounts.contacts import Contacts, UnreadableContact
from domain.connectors.answer_readers import TooManyValues, require_few_values
from domain.connectors.connectors import open_access
from domain.connectors.values import wait_or_none
from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.ids import read_id
from domain.messages.gateways import Fault, GatewayAnswer, GatewayRequest, ask_gateway
from domain.messages.message_text import fitted
from domain.settings import Settings

LONGEST_IN_CAB = {InCabVendor.SAMSARA: 2500}
"""Most characters; developers.samsara.com, "Send a message to a list of driver ids". Motive publishes no limit."""

_MOST_LISTED_BYTES = 16 << 20
_MOST_LISTED_VALUES = 500_000
"""Most values in a list of messages, counted before it is decoded: each message has some ten."""
_LONGEST_WAIT_SECONDS = 3600.0
_WAIT_SECONDS = 60.0
"""The wait where a vendor does not say for how long."""
_NAMES = {InCabVendor.SAMSARA: "Samsara", InCabVendor.MOTIVE: "Motive"}
_MESSAGE_LINE = re.compile(r"Message (msg_[0-9a-z]+)")
_ASK_THE_DRIVER = "the message may have arrived: ask the driver, and send it again only if it did not"


class InCabAccount(NamedTuple):
    """The access to a vendor that a connector of the company has, in its stored form."""

    url: str
    """The address of the vendor's API, without a path."""
    sealed_credentials: str

    def token(self, settings: Settings) -> str:
        """The token. Raises UnreadableContact if it is sealed with another key."""
        return open_access(*self, Contacts.of(settings)).credentials.get("token", "")


_ACCOUNT = Statement(
    InCabAccount,
    "SELECT url, credentials AS sealed_credentials FROM connectors"
    " WHERE company_id = %s AND environment = 'live' AND kind = %s AND paused_at IS NULL ORDER BY id LIMIT 1",
)


def connector_account(connection: Connection, company_id: UUID, vendor: InCabVendor) -> InCabAccount | None:
    """The account of the company's first connector of a vendor that is not paused; None without one."""
    return _ACCOUNT.first(connection, (company_id, vendor))


class InCabTarget(NamedTuple):
    """The driver to whom a claimed message goes, as of the claim."""

    contact: InCabContact
    account: InCabAccount | None
    """The account; None if the company has no connector of this vendor."""
    external_id: str | None
    """The driver's external id, used where the contact names no driver."""


def hand_over_in_cab(
    target: InCabTarget,
    message_id: UUID,
    text: str,
    *,
    repeats: bool,
    in_doubt_since: datetime | None,
    asked_at: datetime,
    settings: Settings,
    now: datetime,
    before_sending: Callable[[], Fault | None],
) -> Fault | None:
    """Give a message to the vendor. Returns None when the vendor has it. `repeats`: there was an attempt before this
    one. `in_doubt_since`: when such an attempt ended that may have reached the driver; if that was before `asked_at`,
    he has been asked. `before_sending` says in the last moment why the message may not be sent after all."""
    vendor, name = target.contact.vendor, _NAMES[target.contact.vendor]
    driver_id = target.contact.driver_id or target.external_id or ""
    if not (driver_id.isascii() and driver_id.isdecimal()):
        return Fault(
            f"the driver has no id of {name}: write it into the contact, {vendor}://4242, or as the external id"
        )
    if target.account is None:
        return Fault(f"the company has no connector of {name} that is not paused: add one, `fuelroute connectors add`")
    try:
        token = target.account.token(settings)
    except UnreadableContact as error:
        return Fault(str(error))
    text = fitted(text, LONGEST_IN_CAB.get(vendor, len(text)))
    if vendor is InCabVendor.MOTIVE and in_doubt_since is not None and in_doubt_since > asked_at:
        return Fault(_ASK_THE_DRIVER, in_doubt=True, final=True)
    if vendor is InCabVendor.SAMSARA and (in_doubt_since is not None or repeats):
        since = now - timedelta(hours=settings.message_retry_hours + 1)
        listed = list_in_samsara(target.account.url, token, since=since, settings=settings, now=now)
        if isinstance(listed, Fault):
            return listed._replace(sentence=f"whether Samsara has the message already is not known: {listed.sentence}")
        if any(one.message_id == message_id and one.driver_id == driver_id for one in listed):
            return None  # by its id: it may have become a correction meanwhile
    return before_sending() or _send(target, target.account, driver_id, token, text, settings)


def _send(
    target: InCabTarget, account: InCabAccount, driver_id: str, token: str, text: str, settings: Settings
) -> Fault | None:
    vendor, name = target.contact.vendor, _NAMES[target.contact.vendor]
    if vendor is InCabVendor.SAMSARA:
        path, headers = "/v1/fleet/messages", _bearer(token)
        document: dict[str, Any] = {"driverIds": [int(driver_id)], "text": text}
    else:
        path, headers = "/v1/messages", {"X-Api-Key": token}
        if target.contact.sender_id:
            headers["X-User-Id"] = target.contact.sender_id
        document = {"recipient_id": int(driver_id), "body": text}
    answer = _ask(GatewayRequest("POST", account.url + path, headers, document), settings)
    if isinstance(answer, GatewayAnswer) and answer.status in (200, 201):
        return None
    fault = _fault_of_answer(answer, name, f"is {driver_id} the id of a driver in {name}?")
    if vendor is InCabVendor.MOTIVE and fault.in_doubt:
        return fault._replace(sentence=f"{fault.sentence}; {_ASK_THE_DRIVER}", final=True)
    return fault


class Listed(NamedTuple):
    """One of our messages in Samsara's list."""

    driver_id: str
    message_id: UUID
    is_read: bool


def list_in_samsara(
    url: str, token: str, *, since: datetime, settings: Settings, now: datetime
) -> list[Listed] | Fault:
    """Our messages that Samsara took since a time, recognized by the ids in their last lines."""
    milliseconds = {"endMs": _milliseconds(now + timedelta(minutes=1)), "durationMs": _milliseconds(now - since)}
    answer = _ask(
        GatewayRequest(
            "GET", f"{url}/v1/fleet/messages?{urlencode(milliseconds)}", _bearer(token), None, _MOST_LISTED_BYTES
        ),
        settings,
    )
    if isinstance(answer, Fault) or answer.status != 200:
        return _fault_of_answer(answer, "Samsara", "")._replace(in_doubt=False, unanswered=False)
    try:
        require_few_values(answer.body, _MOST_LISTED_VALUES)
        return list(_read_listed(json.loads(answer.body)["data"]))
    except (TooManyValues, ValueError, KeyError, TypeError, RecursionError):
        return Fault("Samsara's answer is not the one that its documentation describes")


def _read_listed(data: Iterable[Any]) -> Iterable[Listed]:
    for one in data:
        if isinstance(one, dict):
            named = _MESSAGE_LINE.fullmatch(str(one.get("text")).rpartition("\n")[2])
            if named is not None and (message_id := read_id("msg", named[1])) is not None:
                yield Listed(str(one.get("driverId")), message_id, one.get("isRead") is True)


def _milliseconds(value: datetime | timedelta) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value.timestamp()
    return int(seconds * 1000)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _ask(request: GatewayRequest, settings: Settings) -> GatewayAnswer | Fault:
    allowed = AllowedHosts.of_connectors(settings)
    return ask_gateway(request, allowed=allowed, timeout_seconds=settings.message_timeout_seconds)


def _fault_of_answer(answer: GatewayAnswer | Fault, name: str, question: str) -> Fault:
    """The fault of an attempt that did not succeed. It quotes nothing from the vendor."""
    if isinstance(answer, Fault):
        return answer._replace(sentence=f"{name}: {answer.sentence}", in_doubt=answer.in_doubt or answer.unanswered)
    match answer.status:
        case 401 | 403:
            return Fault(
                f"{name} refused the connector's credential: give it one that may read and write messages, "
                "`fuelroute connectors`"
            )
        case 429:
            return Fault(f"{name} wants fewer calls", wait_seconds=_wait_seconds(answer))
        case 400 | 404 | 422:
            return Fault(f"{name} refused the message: {question}" if question else f"{name} refused the request")
        case status if status >= 500 and status != 503:
            return Fault(f"{name} failed: it answered {status}", in_doubt=True)
    return Fault(f"{name} answered {answer.status}", in_doubt=answer.status < 300)


def _wait_seconds(answer: GatewayAnswer) -> float:
    """The Retry-After of an answer in seconds, at most an hour."""
    given = answer.headers.get("Retry-After", "0")
    try:
        seconds = float(given)
    except ValueError:
        seconds = wait_or_none(given) or _WAIT_SECONDS  # until its date
    return max(0.0, min(_LONGEST_WAIT_SECONDS, seconds))  # in this order for NaN

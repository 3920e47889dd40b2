"""The rule for the URL of a contact.

A contact is an Apprise URL. Drivers and companies bring it, so it is treated as hostile: only the gateways and
parameters listed here are allowed, and no host that is known to be inside our own network. `messages/gateways.py` hands
messages over, and checks the addresses that a host's name resolves to.

A contact may also be in-cab: `samsara://4242` or `motive://4242` names a driver in the app of a vendor, and
`messages/in_cab.py` hands messages to it."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from domain.accounts.allowed_hosts import NO_HOST, AllowedHosts
from domain.addresses import is_host
from domain.settings import get_settings

_GENERAL = frozenset({"to", "from", "name", "user", "pass", "password", "port", "format"})
_MAIL = frozenset({"cc", "bcc", "reply", "region", "batch"})
_WEBHOOK = frozenset({"method"})
"""Parameters of webhooks. They may also have headers, fields and parameters of the request: names that begin with +, :
or -."""

_PARAMETERS: dict[str, frozenset[str]] = {
    # text messages
    **dict.fromkeys(
        ("burstsms", "46elks", "clickatell", "httpsms", "infobip", "msgbird", "seven", "telnyx", "voipms"),
        frozenset({"apikey", "key", "secret", "country"}),
    ),
    **dict.fromkeys(("bulksms", "bulkvs", "clicksend", "d7sms"), frozenset({"batch", "key", "source", "unicode"})),
    **dict.fromkeys(("nexmo", "vonage"), frozenset({"key", "secret", "ttl"})),
    "plivo": frozenset({"batch", "id", "token"}),
    "sinch": frozenset({"region", "spi", "token"}),
    "sns": frozenset({"access", "key", "region", "secret", "token"}),
    "twilio": frozenset({"apikey", "method", "sid", "token"}),
    # e-mail
    **dict.fromkeys(("mailto", "mailtos"), _MAIL | {"mode", "smtp"}),
    **dict.fromkeys(("brevo", "mailgun", "postmark", "sendgrid", "smtp2go", "sparkpost"), _MAIL),
    "resend": _MAIL | {"apikey"},
    "ses": _MAIL | {"access", "key", "secret", "token"},
    # chat and push
    "discord": frozenset({"avatar", "footer", "image", "ping", "thread", "tts"}),
    "gchat": frozenset({"key", "thread", "token", "workspace"}),
    **dict.fromkeys(("gotify", "gotifys"), frozenset({"priority"})),
    **dict.fromkeys(("mmost", "mmosts"), frozenset({"botname", "channel", "channels", "image", "mode", "team"})),
    **dict.fromkeys(("ntfy", "ntfys"), frozenset({"auth", "mode", "priority", "token", "xtags"})),
    "pbul": frozenset(),
    "pover": frozenset({"expire", "interval", "key", "priority", "sound"}),
    **dict.fromkeys(("rocket", "rockets"), frozenset({"avatar", "mode", "webhook"})),
    **dict.fromkeys(("signal", "signals"), frozenset({"batch", "status"})),
    "slack": frozenset({"blocks", "footer", "image", "mode", "timestamp", "token"}),
    "tgram": frozenset({"content", "image", "mdv", "preview", "silent", "thread", "topic"}),
    **dict.fromkeys(("webex", "wxteams"), frozenset({"mode", "token"})),
    "whatsapp": frozenset({"lang", "token"}),
    **dict.fromkeys(
        ("workflow", "workflows"),
        frozenset({"api-version", "id", "image", "pa", "powerautomate", "route", "routeid", "sig", "ver", "wrap"}),
    ),
    "zulip": frozenset({"token"}),
    # systems of the company's own
    **dict.fromkeys(("form", "forms", "json", "jsons", "xml", "xmls"), _WEBHOOK),
}
"""Allowed parameters for each allowed kind of gateway. All gateways speak HTTP or SMTP. Parameters that name a file or
a template, follow redirects, trust any certificate, wait, repeat, or report success after a failure are not allowed."""

_OWN_HOST = re.compile(r"(form|json|xml|mailto|gotify|mmost|ntfy|rocket|signal|workflow)s?|workflows|infobip")
"""Kinds of gateways whose URL names the host to call, unless that is their cloud. Other kinds have a fixed host."""

_LIKE = "such as mailtos://user:password@host"
NOT_PUBLIC = "is not on the public internet; FUELROUTE_MESSAGE_ALLOWED_HOSTS names the exceptions"

_FRAMING_HEADERS = frozenset(
    {"connection", "content-encoding", "content-length", "expect", "host", "http2-settings", "keep-alive"}
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that tell where a request ends and to whom it goes. A second one would contradict the client's own."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]{0,1000}")

_ONE_URL = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]+")


class InCabVendor(StrEnum):
    """A vendor whose app in the cab takes messages to drivers."""

    SAMSARA = "samsara"
    MOTIVE = "motive"


class InCabContact(NamedTuple):
    """A driver in a vendor's app."""

    vendor: InCabVendor
    driver_id: str | None
    """The driver's id at the vendor; None where the driver's external id is the vendor's id."""
    sender_id: str | None
    """Motive's id of the user who sends; None if the vendor chooses."""


_IN_CAB_VENDORS = frozenset(map(str, InCabVendor))
_IN_CAB = re.compile(
    r"(?P<vendor>samsara|motive)://(?P<driver>[0-9]{1,19})?/?(\?from=(?P<sender>[0-9]{1,19}))?", re.IGNORECASE
)


def in_cab_contact(url: str) -> InCabContact | None:
    """The in-cab contact of a URL; None for any other gateway. Raises UnusableContact if its ids are malformed."""
    if channel_of(url) not in _IN_CAB_VENDORS:
        return None
    found = _IN_CAB.fullmatch(url)
    vendor = InCabVendor(channel_of(url))
    if found is None or (found["sender"] and vendor is not InCabVendor.MOTIVE):
        sender = ", with ?from=ID for the user who sends" if vendor is InCabVendor.MOTIVE else ""
        raise UnusableContact(
            f"is not an in-cab contact: write {vendor}://4242 with the driver's id in {vendor.title()}, or {vendor}:// "
            f"for the driver's external id{sender}"
        )
    return InCabContact(vendor, found["driver"], found["sender"])


def fault_of(url: str, allowed: AllowedHosts | None = None, *, in_cab: bool = False) -> str | None:
    """Why a contact cannot be used, as the end of a sentence that names it; None when it can. No name is resolved. With
    `in_cab` the contact takes drivers' messages, so it may be an app in the cab."""
    try:
        if in_cab and in_cab_contact(url) is not None:
            return None
        gateway_of(url, AllowedHosts.of(get_settings()) if allowed is None else allowed)
    except UnusableContact as error:
        return str(error)
    return None


def channel_of(url: str) -> str:
    """The schema of an Apprise URL, which names the gateway and holds no secret."""
    schema, found, _ = url.partition("://")
    return schema.lower() if found and schema else "unknown"


def is_mail(url: str) -> bool:
    """True if the contact is a mailbox."""
    return _PARAMETERS.get(channel_of(url), frozenset()) >= _MAIL


class UnusableContact(Exception):
    """A contact that must not be used. The text ends a sentence that begins with the name of the contact."""


def gateway_of(url: str, allowed: AllowedHosts) -> Any:
    """The Apprise plugin of a contact. Raises UnusableContact, with the reason, if the contact breaks the rule."""
    import apprise  # here, as in `_asset`: it takes long to load, and few commands need it
    from apprise.plugins import url_to_dict

    if channel_of(url) in _IN_CAB_VENDORS:
        raise UnusableContact("leads to an app in the cab, which takes drivers' messages alone")
    if not _ONE_URL.fullmatch(url) or url.count("://") > 1:
        raise UnusableContact(f"is not exactly one URL that Apprise can use, {_LIKE}")
    parsed: dict[str, Any] | None = url_to_dict(url)  # type: ignore[no-untyped-call]  # Apprise's carries no types
    if parsed is None:
        raise UnusableContact(f"is not a URL that Apprise can use, {_LIKE}")
    known = _PARAMETERS.get(parsed["schema"])
    if known is None:
        raise UnusableContact("names a kind of gateway that is not allowed; the README lists those that are")
    if not all(name in _GENERAL | known or (known is _WEBHOOK and name[:1] in "+-:") for name in parsed["qsd"]):
        raise UnusableContact(f"has a parameter that is not allowed with {parsed['schema']}://")
    gateway = apprise.Apprise.instantiate(parsed, asset=_asset())
    if gateway is None:
        raise UnusableContact(f"is not a URL that Apprise can use, {_LIKE}")
    _check_headers(getattr(gateway, "headers", None) or {})
    if _OWN_HOST.fullmatch(parsed["schema"]) and getattr(gateway, "mode", None) != "cloud":
        _check_host(getattr(gateway, "smtp_host", None) or gateway.host or "", gateway.port, allowed)
    return gateway


def _check_host(host: str, port: int | None, allowed: AllowedHosts) -> None:
    """Check host and port. Raises UnusableContact, with the reason, if either must not be used."""
    if not is_host(host.strip("[]")):
        raise UnusableContact(NO_HOST)
    if port is not None and not 0 < port < 1 << 16:
        raise UnusableContact("has a port that there is not: ports are numbers from 1 to 65535")
    if not allowed.may_take(host):
        raise UnusableContact(f"names a host that {NOT_PUBLIC}")


def _check_headers(headers: Mapping[str, str]) -> None:
    """Check the headers. Raises UnusableContact for a header that belongs to the connection, or one with a line end
    inside."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UnusableContact("has a header that no request can have")
        plain = name.lstrip("+").lower().replace("_", "-")  # many servers read one sign as the other
        if plain in _FRAMING_HEADERS or plain.startswith("proxy-"):
            raise UnusableContact(f"sets the header {name}, which belongs to the connection: leave it out")


@cache
def _asset() -> Any:
    import apprise

    # No time limit of its own: with one it would hand over in a small pool of threads that all share.
    return apprise.AppriseAsset(
        app_id="Fuelroute", http_redirects=False, allow_templates=False, service_timeout=0, storage_mode="memory"
    )

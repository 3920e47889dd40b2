"""The rule for the URL of a contact.

A contact is an Apprise URL. Drivers and companies bring it, so it is treated as hostile: only the gateways and
parameters listed here are allowed, and no host that is known to be inside our own network. `messages/gateways.py` hands
messages over, and looks at the addresses that a host's name resolves to.
"""

import ipaddress
import re
import socket
import unicodedata
from functools import cache
from typing import Any, NamedTuple

from domain.settings import Settings, get_settings

_GENERAL = frozenset({"to", "from", "name", "user", "pass", "password", "port", "format"})
_MAIL = frozenset({"cc", "bcc", "reply", "region", "batch"})
_WEBHOOK = frozenset({"method"})
"""Webhooks may also have headers, fields and parameters of the request: names that begin with +, : or -."""

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
"""The parameters that a contact may have, for each kind of gateway that it may name. All speak HTTP or SMTP. Parameters
that name a file or a template, follow redirects, trust any certificate, wait, repeat, or report success after a failure
are not allowed."""

_OWN_HOST = re.compile(r"(form|json|xml|mailto|gotify|mmost|ntfy|rocket|signal|workflow)s?|workflows|infobip")
"""Kinds of gateways whose URL names the host that is called, unless that is their cloud. Other kinds know their
host."""

_LIKE = "such as mailtos://user:password@host"
NOT_PUBLIC = "is not on the public internet; FUELROUTE_MESSAGE_ALLOWED_HOSTS names the exceptions"

_ONE_URL = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]+")
_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NEVER_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure: metadata and the machine's agent
            "100.100.100.200/32",  # Alibaba Cloud: metadata
            "192.0.0.0/24",  # Oracle Cloud has metadata at 192.0.0.192
            "169.254.0.0/16",  # every other cloud
            "161.26.0.0/16",  # IBM Cloud: services within its own network
            "166.8.0.0/14",
            "192.88.99.0/24",  # relays to IPv6
            "fd00::/8",  # AWS has metadata at fd00:ec2::254, Google at fd20:ce::254
            "3fff::/20",  # examples
        ),
    )
)
"""Addresses that can be reached only from inside some network, whatever this version of Python calls them."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AllowedHosts(NamedTuple):
    """The operator's own gateways: they may stand inside the network."""

    names: frozenset[str] = frozenset()
    networks: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> "AllowedHosts":
        names, networks = set(), []
        for entry in filter(None, map(str.strip, settings.message_allowed_hosts.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                names.add(entry.lower().rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def have(self, host: str) -> bool:
        return host.lower().rstrip(".") in self.names

    def take(self, address: _Address) -> bool:
        """True when a connection to this address is allowed."""
        return any(address in network for network in self.networks) or _is_public(address)


def fault_of(url: str, allowed: AllowedHosts | None = None) -> str | None:
    """The reason why a contact cannot be used, as the end of a sentence that names it; None when it can. No name is
    resolved."""
    try:
        gateway_of(url, AllowedHosts.of(get_settings()) if allowed is None else allowed)
    except UnusableContact as error:
        return str(error)
    return None


class UnusableContact(Exception):
    """A contact that must not be used. The text ends a sentence that begins with the name of the contact."""


def gateway_of(url: str, allowed: AllowedHosts) -> Any:
    """The Apprise plugin of a contact. Raises UnusableContact."""
    import apprise  # here, as in `_asset`: it takes long to load, and few commands need it
    from apprise.plugins import url_to_dict

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
    own_host = _OWN_HOST.fullmatch(parsed["schema"]) and getattr(gateway, "mode", None) != "cloud"
    if own_host and not _may_be_called(getattr(gateway, "smtp_host", None) or gateway.host or "", allowed):
        raise UnusableContact(f"names a host that {NOT_PUBLIC}")
    return gateway


@cache
def _asset() -> Any:
    import apprise

    # no time limit of its own: it would hand over in a small pool of threads that all share
    return apprise.AppriseAsset(
        app_id="Fuelroute", http_redirects=False, allow_templates=False, service_timeout=0, storage_mode="memory"
    )


def _may_be_called(host: str, allowed: AllowedHosts) -> bool:
    """Judges a host without resolving it. The host may be written in any way that a resolver understands."""
    name = unicodedata.normalize("NFKC", host).strip("[]").rstrip(".").lower()
    if allowed.have(name):
        return True
    if (address := literal_address(name)) is not None:
        return allowed.take(address)
    return "." in name and not any(name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES)


def literal_address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))  # 127.1, 0x7f000001, 2130706433, 0177.0.0.1
    except (OSError, ValueError):
        return None


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if address.is_site_local or address.teredo is not None:
            return False
    if any(address in network for network in _NEVER_PUBLIC):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)

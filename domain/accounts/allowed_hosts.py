"""The hosts that URLs of a company may lead to: contacts of drivers, endpoints of webhooks, vendors of telematics.

Companies bring these URLs, so they are treated as hostile: they may lead to the public internet, and inside our own
network only to the hosts that the operator names."""

import ipaddress
import unicodedata
from typing import NamedTuple

from domain.addresses import is_host, literal_address
from domain.settings import Settings

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
"""Addresses that can be reached only from inside some network, even where this version of Python calls them public."""

_LONGEST_URL = 2_000

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AllowedHosts(NamedTuple):
    """The operator's own hosts, which may stand inside the network."""

    names: frozenset[str] = frozenset()
    networks: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> "AllowedHosts":
        """The exceptions for message gateways."""
        return cls.read(settings.message_allowed_hosts)

    @classmethod
    def of_webhooks(cls, settings: Settings) -> "AllowedHosts":
        """The exceptions for endpoints of webhooks."""
        return cls.read(settings.webhook_allowed_hosts)

    @classmethod
    def of_connectors(cls, settings: Settings) -> "AllowedHosts":
        """The exceptions for vendors of telematics."""
        return cls.read(settings.connector_allowed_hosts)

    @classmethod
    def read(cls, entries: str) -> "AllowedHosts":
        names, networks = set(), []
        for entry in filter(None, map(str.strip, entries.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                names.add(entry.lower().rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def have(self, host: str) -> bool:
        """True if the operator names this host, whatever its address."""
        return host.lower().rstrip(".") in self.names

    def take(self, address: Address) -> bool:
        """True if a connection to this address is allowed."""
        return any(address in network for network in self.networks) or _is_public(address)

    def exempts(self, host: str) -> bool:
        """True if the operator names this host, or a network around its numeric address."""
        address = literal_address(host.strip("[]"))
        return self.have(host) or (address is not None and any(address in network for network in self.networks))

    def may_take(self, host: str) -> bool:
        """Judge a host without resolving it, in any spelling that a resolver understands."""
        name = unicodedata.normalize("NFKC", host).strip("[]").rstrip(".").lower()
        if self.have(name):
            return True
        if (address := literal_address(name)) is not None:
            return self.take(address)
        return "." in name and not any(name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES)


def _is_public(address: Address) -> bool:
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


NO_HOST = "names a host that cannot be one: names have parts of 1 to 63 letters, digits and hyphens, with dots between"


def not_on_internet(setting: str) -> str:
    """The end of the sentence about a forbidden address."""
    return f"is not on the public internet; {setting} names the exceptions"


def url_fault(url: str, allowed: AllowedHosts, setting: str) -> str | None:
    """Why a company cannot have this URL called, as the end of a sentence that names it; None when it can. `setting` is
    the variable that names the exceptions. No name is resolved."""
    import httpx  # here: it takes long to load, and few commands need it

    if len(url) > _LONGEST_URL or not url.isprintable() or " " in url:
        return f"is one line of at most {_LONGEST_URL} characters without spaces"
    try:
        parsed = httpx.URL(url)
        host = parsed.host
    except (httpx.InvalidURL, UnicodeError):  # of a host whose letters no name may have
        return "cannot be read: it looks like https://example.com/fuelroute"
    if parsed.scheme not in ("https", "http") or not host or "%" in host:
        return "names no host by https: it looks like https://example.com/fuelroute"
    if not is_host(host):
        return NO_HOST
    if parsed.port is not None and not 0 < parsed.port < 1 << 16:
        return "has a port that there is not: ports are numbers from 1 to 65535"
    if parsed.userinfo or parsed.fragment:
        return "has a user, a password or a fragment: leave them out"
    if not allowed.may_take(host):
        return f"names a host that {not_on_internet(setting)}"
    if parsed.scheme == "http" and not allowed.exempts(host):
        return "begins with http://: give one that begins with https://"
    return None

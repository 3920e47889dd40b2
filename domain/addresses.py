"""Checks of servers' addresses before anything connects to them.

Libraries repeat parts of an address that they cannot use. Or they take a piece of a mistyped password for a host or a
port, and report that it does not answer. So an address that may be mistyped is refused here, without repeating any of
it. A server's library is loaded with the check of its address: a command that uses neither server starts without
them."""

import ipaddress
import re
import socket
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

_IN_PASSWORDS = "in a password write %40 for @, %2F for /, %3A for :, %3F for ?, %23 for #, %25 for %"
_REDIS_OPTIONS = re.compile(
    "connection_class|db|host|port|path|username|password|protocol|client_name|timeout|max_connections|health_check_interval|"
    "retry_on_timeout|sentinel_(username|password)|(ssl|socket)_[a-z_]+"
)
_PLAIN_QUERY = re.compile(r"(db=\d{1,9})?", re.ASCII)
"""A query whose options need not be asked of redis-py."""
_SENTINELS = re.compile(
    r"(?P<scheme>rediss?)\+sentinel://(?P<user>[^@/?#]*@)?(?P<hosts>[^@/?#]+)/(?P<name>[\w.:-]+)"
    r"(?P<database>/\d*)?(?P<query>\?[^#]*)?"
)
_SENTINEL_PORT = 26379


def reachable(host: str) -> str:
    """The host in the URL of a server that listens on this address of the machine."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 (compared, not bound)
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def postgres_address(url: str, *, takes_changes: bool = True) -> str:
    """Checks `url`, a URL or `name=value` pairs as libpq reads them, and returns it. Without `takes_changes` any of its
    hosts will do. Raises ValueError for an unusable one, with a text for the operator."""
    wrong = ValueError(
        "this is no address of a PostgreSQL: write postgresql://host:5432/database, and before the host the user, a "
        "colon, the password and an @; " + _IN_PASSWORDS
    )
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        raise wrong from None
    of_the_server = (parts.get(name, "") for name in ("host", "hostaddr", "dbname"))
    ports = parts.get("port", "").split(",")
    if any("@" in part for part in of_the_server) or not all(port.isdecimal() or not port for port in ports):
        raise wrong
    hosts = (parts.get("host") or parts.get("hostaddr", "")).split(",")
    if len(hosts) > 1 and len(ports) not in (1, len(hosts)):
        raise ValueError("give one port for all hosts, or one for each: postgresql://host1:5432,host2:5432/database")
    if takes_changes and len(hosts) > 1 and parts.get("target_session_attrs") not in ("read-write", "primary"):
        raise ValueError("an address with several hosts needs target_session_attrs=read-write: only one takes changes")
    return url


def replica_address(url: str) -> str:
    """Checks the address of replicas, of which each host can be read from, and returns it. Raises ValueError for an
    unusable one, with a text for the operator."""
    return postgres_address(url, takes_changes=False)


def redis_address(url: str) -> str:
    """Checks `url`, which redis-py reads or which names Sentinels, and returns it. Raises ValueError for an unusable
    one, with a text for the operator."""
    wrong = ValueError(
        "this is no address of a Redis: write redis://host:6379/0, and before the host a colon, the password and an @; "
        + _IN_PASSWORDS
    )
    if "+sentinel:" in url.partition("//")[0]:
        sentinels = sentinel_address(url)
        if sentinels is None:
            raise ValueError(
                "this is no address of Sentinels: write redis+sentinel://host1:26379,host2:26379/NAME/0, where NAME is"
                " what they call the primary, and before the hosts a colon, the password and an @; " + _IN_PASSWORDS
            )
        redis_address(sentinels.plain)
        return url
    parts = _split(url, wrong)
    if parts.scheme == "unix":
        good = parts.path.startswith("/") and (not parts.netloc or parts.netloc.endswith("@"))
    else:
        good = (
            parts.scheme in ("redis", "rediss") and bool(parts.hostname) and bool(re.fullmatch(r"(/\d*)?", parts.path))
        )
    if not good or not url.startswith(f"{parts.scheme}://") or not _are_redis_options(parts.query, url):
        raise wrong
    return url


def _are_redis_options(query: str, url: str) -> bool:
    """True if redis-py can use the options in the query of `url`."""
    if _PLAIN_QUERY.fullmatch(query):
        return True
    from redis.connection import parse_url  # a quarter of a command's start, with what redis-py measures itself by

    try:
        options = set(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError:
        return False
    return all("=" in pair for pair in query.split("&")) and all(map(_REDIS_OPTIONS.fullmatch, options))


class SentinelAddress(NamedTuple):
    """An address `redis+sentinel://:password@host1:26379,host2:26379/NAME/0`."""

    hosts: list[tuple[str, int]]
    name: str
    """The name of the primary."""
    plain: str
    """The address of the first host as a plain Redis address, with password, database and options."""


def sentinel_address(url: str) -> SentinelAddress | None:
    """The parts of an address that names Sentinels; None for any other address."""
    found = _SENTINELS.fullmatch(url)
    if found is None:
        return None
    hosts = []
    with suppress(ValueError):
        for one in found["hosts"].split(","):
            parts = urlsplit(f"//{one}")
            if not parts.hostname:
                return None
            hosts.append((parts.hostname, parts.port or _SENTINEL_PORT))
        first = found["hosts"].split(",")[0]
        rest = f"{found['database'] or ''}{found['query'] or ''}"
        return SentinelAddress(hosts, found["name"], f"{found['scheme']}://{found['user'] or ''}{first}{rest}")
    return None


_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_LONGEST_NAME = 253


def literal_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The numeric address of a host, in any spelling that a resolver understands; None for a name."""
    with suppress(ValueError):
        return ipaddress.ip_address(host)
    with suppress(OSError, ValueError):
        return ipaddress.IPv4Address(socket.inet_aton(host))  # 127.1, 0x7f000001, 2130706433, 0177.0.0.1
    return None


def is_host(host: str) -> bool:
    """True for an address, and for a name that a name server could know. For other texts libraries fail in their own
    ways, or not before they connect: labels that are empty, longer than 63 characters or unknown to IDNA, and
    characters that no name has."""
    if "%" in host or " " in host or not host.isprintable():
        return False
    if literal_address(host) is not None:
        return True
    name = _name_in_ascii(host)
    labels = name.removesuffix(".").split(".")
    return (
        len(name) <= _LONGEST_NAME + name.endswith(".")
        and all(map(_LABEL.fullmatch, labels))
        and _NUMBER.fullmatch(labels[-1]) is None
    )


def _name_in_ascii(host: str) -> str:
    """The name as name servers know it; empty for one that IDNA does not know."""
    if host.isascii() and "xn--" not in host.lower():
        return host
    import idna  # here: few names need it

    try:
        return idna.encode(host, uts46=True).decode()
    except UnicodeError:
        return ""


def is_local(host: str) -> bool:
    """True for a socket and for an address of this machine alone."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host in ("", "localhost") or host.startswith(("/", "@"))


def http_address(url: str) -> str:
    """Checks `url` and returns it. Raises ValueError if it is no HTTP address, with a text for the operator."""
    wrong = ValueError("this is no address of a web server: write http://host:8002; " + _IN_PASSWORDS)
    parts = _split(url, wrong)
    if parts.scheme not in ("http", "https") or not is_host(parts.hostname or ""):
        raise wrong
    return url


def open_http_address(url: str) -> str:
    """Checks `url`, which people's browsers open and which therefore holds no password, and returns it. Raises
    ValueError if it is unusable, with a text for the operator."""
    if "@" in urlsplit(http_address(url)).netloc:
        raise ValueError("browsers ask this address, so leave out user and password")
    return url


def public_page_address(url: str) -> str:
    """Checks the address of pages whose links are secrets, and returns it. Raises ValueError for one with a path or a
    query, and for one without TLS that leads to another machine."""
    parts = urlsplit(open_http_address(url))
    if parts.path.strip("/") or parts.query:
        raise ValueError("give the address without a path, such as https://drive.example.com")
    if parts.scheme != "https" and not is_local(parts.hostname or ""):
        raise ValueError("its links are secrets, so it begins with https://")
    return url


def _split(url: str, wrong: ValueError) -> SplitResult:
    """The parts of a URL. Raises `wrong` if any part looks misplaced."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise wrong from None
    if parts.fragment or "@" in parts.path + parts.query or not url.isprintable() or " " in url:
        raise wrong
    return parts

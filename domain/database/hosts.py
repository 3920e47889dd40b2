"""Orders the hosts of an address: the one that took changes last comes first. So a machine that is away costs a process
its time-out once, not at each new connection."""

from psycopg import ConnectionInfo
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_primary: dict[str, tuple[str, int]] = {}
"""The host and the port that answered last for each address."""


def primary_first(url: str) -> str:
    """The address `url` with its hosts reordered, the last primary first."""
    primary = _primary.get(url)
    if primary is None:
        return url
    parts = conninfo_to_dict(url)
    hosts = str(parts["host"]).split(",")
    ports = str(parts.get("port") or "5432").split(",")
    each = list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))
    each.sort(key=lambda one: (one[0], int(one[1] or 5432)) != primary)
    return make_conninfo(url, host=",".join(host for host, _ in each), port=",".join(port for _, port in each))


def note_primary(url: str, info: ConnectionInfo) -> None:
    """Remember the host that answered."""
    if has_several_hosts(url):
        _primary[url] = (info.host, info.port)


def has_several_hosts(url: str) -> bool:
    """True where the address names several hosts by name. Addresses of IP (`hostaddr`) do not count, because libpq
    pairs them with names."""
    if "," not in url:
        return False
    parts = conninfo_to_dict(url)
    return "," in str(parts.get("host") or "") and not parts.get("hostaddr")


def this_server(url: str, info: ConnectionInfo) -> str:
    """The address of the one server that a connection leads to, primary or standby."""
    return make_conninfo(url, host=info.host, port=info.port, hostaddr=info.hostaddr, target_session_attrs="any")

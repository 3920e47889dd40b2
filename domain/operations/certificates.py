"""Certificates that the service depends on, and when each runs out: those that its servers and its public addresses
show, and those in the files that the addresses of the servers name."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from domain.settings import Settings

TOLD_BEFORE = timedelta(days=14)

_SECONDS = 2
_ASK_FOR_TLS = (8).to_bytes(4) + (80877103).to_bytes(4)
"""PostgreSQL's SSLRequest: it answers `S` where it speaks TLS."""


def ends_of_certificates(settings: Settings) -> dict[str, datetime]:
    """The end of each certificate, by what it is of: `postgresql`, `postgresql sslrootcert`, `redis`, `console` and so
    on. Servers that do not answer, speak no TLS or are found by Sentinels, and files that cannot be read, are left
    out: other checks tell them. It may take some seconds for each server."""
    found: dict[str, datetime] = {}
    for name, end in _ends(settings):
        found[name] = min(end, found.get(name, end))
    return found


def _ends(settings: Settings) -> Iterator[tuple[str, datetime]]:
    from psycopg.conninfo import conninfo_to_dict

    for url in filter(None, (settings.database_url, settings.database_direct_url, settings.database_replica_url)):
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        hosts = parts.get("host", "").split(",")
        ports = parts.get("port", "5432").split(",")
        for host, port in zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=False):
            if host and not host.startswith("/"):
                yield from _served("postgresql", host, int(port or 5432), first=_ASK_FOR_TLS)
        yield from _stored("postgresql", {name: parts.get(name, "") for name in ("sslrootcert", "sslcert")})
    redis = urlsplit(settings.redis_url or "")
    options = {name: values[0] for name, values in parse_qs(redis.query).items()}
    if redis.scheme == "rediss" and redis.hostname:
        yield from _served("redis", redis.hostname, redis.port or 6379)
    yield from _stored("redis", {name: options.get(name, "") for name in ("ssl_ca_certs", "ssl_certfile")})
    public = {"api": settings.api_url, "console": settings.console_url, "driver page": settings.driver_page_url}
    for name, address in public.items():
        parsed = urlsplit(address or "")
        if parsed.scheme == "https" and parsed.hostname:
            yield from _served(name, parsed.hostname, parsed.port or 443)


def _served(name: str, host: str, port: int, *, first: bytes = b"") -> Iterator[tuple[str, datetime]]:
    """The end of the certificate that a server shows, valid or not."""
    from cryptography.x509 import load_der_x509_certificate

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # its end is told, nothing else is sent
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as plain:
            if first:
                plain.sendall(first)
                if plain.recv(1) != b"S":
                    return
            with context.wrap_socket(plain, server_hostname=host) as connection:
                shown = connection.getpeercert(binary_form=True) or b""
        yield name, load_der_x509_certificate(shown).not_valid_after_utc
    except (OSError, ValueError):
        return


def _stored(name: str, files: dict[str, str]) -> Iterator[tuple[str, datetime]]:
    """The ends of certificates in files. Of several authorities in a file the last one counts: it follows the
    others."""
    from cryptography.x509 import load_pem_x509_certificates

    for option, file in files.items():
        with suppress(OSError, ValueError):
            ends = [one.not_valid_after_utc for one in load_pem_x509_certificates(Path(file).read_bytes())]
            yield f"{name} {option}", ends[0] if option in ("sslcert", "ssl_certfile") else max(ends)

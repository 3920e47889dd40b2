"""Certificates that run out: those that servers show, and those in files."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from domain.operations.certificates import ends_of_certificates
from domain.settings import Settings
from tests.private_ca import Authority

DAY = timedelta(days=1)


@contextmanager
def tls_server(authority: Authority, *, asked: bytes = b"") -> Iterator[int]:
    """The port of a server that shows the authority's certificate, after it was asked as PostgreSQL is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.cert, authority.key)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with suppress(OSError), connection:
                    if asked:
                        assert connection.recv(len(asked)) == asked
                        connection.sendall(b"S")
                    context.wrap_socket(connection, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    serving.join(60)


def test_the_end_of_each_certificate_is_found(tmp_path: Path) -> None:
    authority = Authority(tmp_path, valid_for=9 * DAY)
    request = bytes.fromhex("0000000804d2162f")
    with tls_server(authority, asked=request) as postgres, tls_server(authority) as other:
        settings = Settings(
            database_url=f"postgresql://127.0.0.1:{postgres}/x?sslmode=verify-full&sslrootcert={authority.ca}",
            redis_url=f"rediss://127.0.0.1:{other}/0?ssl_ca_certs={authority.ca}",
            console_url=f"https://127.0.0.1:{other}",
        )
        found = ends_of_certificates(settings)

    days = {name: round((end - datetime.now(UTC)) / DAY) for name, end in found.items()}
    assert days == {"postgresql": 9, "redis": 9, "console": 9, "postgresql sslrootcert": 1, "redis ssl_ca_certs": 1}


def test_what_has_no_certificate_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    settings = Settings(
        database_url=f"postgresql:///x?host={tmp_path}&sslrootcert={tmp_path}/ca.pem",
        redis_url="rediss://127.0.0.1:9/0?ssl_ca_certs=/no/such/file",
        console_url="http://127.0.0.1:9",
    )

    assert ends_of_certificates(settings) == {}

"""A real SFTP server on loopback, whose files are those of a folder."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import asyncssh


class SftpServer(NamedTuple):
    port: int
    host_key: str
    """The public key, as `ssh-keyscan` prints it."""


class _Passwords(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("fleet", "right")


@contextmanager
def sftp_server(folder: Path, authorized_key: asyncssh.SSHKey | None = None) -> Iterator[SftpServer]:
    """Serves the folder to the user `fleet` with the password `right`, or to who has the key."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    allowed = folder.parent / "authorized_keys"
    allowed.write_bytes(authorized_key.export_public_key() if authorized_key is not None else b"")
    started: queue.SimpleQueue[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        stop = asyncio.Event()
        acceptor = await asyncssh.create_server(
            _Passwords,
            "127.0.0.1",
            0,
            server_host_keys=[key],
            authorized_client_keys=str(allowed) if authorized_key is not None else None,
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(folder).encode()),
        )
        started.put((acceptor.get_port(), asyncio.get_running_loop(), stop))
        await stop.wait()
        acceptor.close()
        await acceptor.wait_closed()
        await asyncio.sleep(0.05)  # connections that the clients have closed end

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    port, loop, stop = started.get(timeout=10)
    try:
        yield SftpServer(port, key.export_public_key().decode().strip())
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()

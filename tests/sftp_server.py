"""A real SFTP server on loopback, whose files are those of a folder, and that falls silent where a test wants it."""

import asyncio
import os
import queue
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import asyncssh


class SftpServer(NamedTuple):
    port: int
    host_key: str
    """The public key, as `ssh-keyscan` prints it."""


Silence = Literal["", "list", "read", "close", "stat", "drip"]
"""The request that is never answered; `drip`: a file comes byte by byte."""


class _Files(asyncssh.SFTPServer):
    def __init__(
        self, channel: Any, folder: Path, silence: Silence, says: str, times: dict[str, int], opened: list[Any]
    ) -> None:
        super().__init__(channel, chroot=str(folder).encode())
        self._silence, self._says, self._times = silence, says, times
        self._opened = opened

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        if self._silence == "list":
            await asyncio.sleep(3_600)
        if self._says:
            raise asyncssh.SFTPFailure(self._says)
        async for name in super().scandir(path):
            mtime = self._times.get(os.fsdecode(name.filename))
            if mtime is not None:
                name.attrs.mtime = mtime or None
            yield name

    async def stat(self, path: bytes) -> Any:
        if self._silence == "stat":
            await asyncio.sleep(3_600)
        about = super().stat(path)
        mtime = self._times.get(Path(os.fsdecode(path)).name)
        if mtime is None:
            return about
        attrs = asyncssh.SFTPAttrs.from_local(about)  # type: ignore[arg-type]
        attrs.mtime = mtime or None
        return attrs

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        self._opened.append(opened := super().open(path, pflags, attrs))
        return opened

    async def read(self, file_obj: Any, offset: int, size: int) -> bytes:
        if self._silence == "read":
            await asyncio.sleep(3_600)
        if self._silence == "drip":
            await asyncio.sleep(0.05)
            size = 1
        return bytes(super().read(file_obj, offset, size))  # type: ignore[arg-type]

    async def close(self, file_obj: Any) -> None:
        if self._silence == "close":
            await asyncio.sleep(3_600)
        super().close(file_obj)


class _Passwords(asyncssh.SSHServer):
    def __init__(self, connections: list[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("fleet", "right")


@contextmanager
def sftp_server(
    folder: Path,
    authorized_key: asyncssh.SSHKey | None = None,
    *,
    silence: Silence = "",
    says: str = "",
    times: dict[str, int] | None = None,
) -> Iterator[SftpServer]:
    """Serves the folder to the user `fleet` with the password `right`, or to who has the key. `times` are those that
    the server tells of files, by name; 0: none."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    opened: list[Any] = []
    connections: list[asyncssh.SSHServerConnection] = []
    allowed = folder.parent / "authorized_keys"
    allowed.write_bytes(authorized_key.export_public_key() if authorized_key is not None else b"")
    started: queue.SimpleQueue[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        stop = asyncio.Event()
        acceptor = await asyncssh.create_server(
            lambda: _Passwords(connections),
            "127.0.0.1",
            0,
            server_host_keys=[key],
            authorized_client_keys=str(allowed) if authorized_key is not None else None,
            sftp_factory=lambda channel: _Files(channel, folder, silence, says, times or {}, opened),
        )
        started.put((acceptor.get_port(), asyncio.get_running_loop(), stop))
        await stop.wait()
        acceptor.close()
        await acceptor.wait_closed()
        for one in opened:  # of connections that broke off
            one.close()
        for connection in connections:
            connection.abort()
            await connection.wait_closed()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    port, loop, stop = started.get(timeout=120)
    try:
        yield SftpServer(port, key.export_public_key().decode().strip())
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def silent_server() -> Iterator[SftpServer]:
    """Takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
        yield SftpServer(listening.getsockname()[1], key)

"""Fetches files from sources: lists them, and copies one at a time, within bounds on size, number and time.

The key of an SFTP server is pinned: another server at its address gets neither the password nor an answer. asyncssh is
loaded only where a source needs it.
"""

import asyncio
import os
import stat
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from domain.errors import FuelrouteError
from domain.stations.price_sources import PriceSource, SourceAddress

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SSHClientConnection

Result = TypeVar("Result")

MOST_FILE_BYTES = 64 << 20
"""The largest chain's file is below a megabyte."""
MOST_FILES_LISTED = 10_000
MOST_FILES_TAKEN = 20
"""Files of one look; the rest waits for the next."""
SFTP_CONNECT_SECONDS = 15.0
FETCH_SECONDS = 120.0
"""The time for one listing or one file."""


class FetchFailed(FuelrouteError):
    """The source could not be read; the text says why and what to do."""


class ListedFile(NamedTuple):
    name: str
    size_bytes: int
    modified_at: int
    """Seconds since 1970."""


class OpenSource(Protocol):
    def files(self) -> list[ListedFile]:
        """The files whose names fit, the oldest first. Raises FetchFailed."""

    def fetch(self, name: str, target: Path) -> None:
        """Copy one file. Raises FetchFailed."""


@contextmanager
def open_source(source: PriceSource, secret: str | None) -> Iterator[OpenSource]:
    """`secret` is the opened one. Raises FetchFailed."""
    if source.kind == "folder":
        yield _Folder(source.place)
        return
    sftp = _Sftp(source.place, secret or "")
    try:
        yield sftp
    finally:
        sftp.close()


@contextmanager
def working_folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="fuelroute-prices-") as folder:
        yield Path(folder)


class _Folder:
    def __init__(self, place: SourceAddress) -> None:
        self._folder, self._pattern = Path(place.path), place.pattern

    def files(self) -> list[ListedFile]:
        found = []
        try:
            with os.scandir(self._folder) as entries:
                for number, entry in enumerate(entries):
                    if number >= MOST_FILES_LISTED:
                        raise FetchFailed(f"the folder has more than {MOST_FILES_LISTED:,} files: move old ones away")
                    if fnmatchcase(entry.name, self._pattern) and entry.is_file(follow_symlinks=False):
                        about = entry.stat(follow_symlinks=False)
                        found.append(ListedFile(entry.name, about.st_size, int(about.st_mtime)))
        except OSError as error:
            raise FetchFailed(f"cannot read the folder {self._folder}: {error.strerror}") from None
        return _oldest_first(found)

    def fetch(self, name: str, target: Path) -> None:
        try:
            # a link that takes the file's place meanwhile is not followed
            opened = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(opened, "rb") as source, target.open("wb") as copy:
                if not stat.S_ISREG(os.fstat(opened).st_mode):
                    raise FetchFailed(f"{name} is no file")
                content = source.read(MOST_FILE_BYTES + 1)
                copy.write(content)
        except OSError as error:
            raise FetchFailed(f"cannot read {name}: {error.strerror}") from None
        if len(content) > MOST_FILE_BYTES:
            raise _too_large(name)


class _Sftp:
    """A connection that is opened when it is first used. asyncssh is asynchronous; a loop of its own serves it."""

    def __init__(self, place: SourceAddress, secret: str) -> None:
        self._place, self._secret = place, secret
        self._loop = asyncio.new_event_loop()
        self._client: SFTPClient | None = None
        self._connection: SSHClientConnection | None = None

    def files(self) -> list[ListedFile]:
        return _oldest_first(self._within(self._list()))

    def fetch(self, name: str, target: Path) -> None:
        self._within(self._copy(name, target))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            with suppress(OSError, TimeoutError):
                self._loop.run_until_complete(asyncio.wait_for(self._connection.wait_closed(), SFTP_CONNECT_SECONDS))
        self._loop.close()

    def _within(self, work: Coroutine[Any, Any, Result]) -> Result:
        import asyncssh

        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, FETCH_SECONDS))
        except TimeoutError:
            raise FetchFailed(f"{self._place.host} took longer than {FETCH_SECONDS:.0f} seconds: try again") from None
        except asyncssh.HostKeyNotVerifiable:
            raise FetchFailed(
                f"{self._place.host} has another key than the one that is pinned: if its people have changed it, add "
                "the source again with the new key"
            ) from None
        except asyncssh.PermissionDenied:
            raise FetchFailed(f"{self._place.host} refuses the user or the password: add the source again") from None
        except asyncssh.SFTPError as error:
            raise FetchFailed(f"{self._place.host} says: {str(error.reason)[:200]}") from None
        except asyncssh.Error as error:
            raise FetchFailed(f"{self._place.host} says: {str(error)[:200]}") from None
        except (OSError, ValueError) as error:
            raise FetchFailed(f"cannot connect to {self._place.host}:{self._place.port}: {error}") from None

    async def _connected(self) -> "SFTPClient":
        if self._client is not None:
            return self._client
        import asyncssh

        place = self._place
        try:
            pinned = asyncssh.import_public_key(place.host_key)
        except asyncssh.KeyImportError:
            raise FetchFailed("the server's key cannot be read: give it as `ssh-keyscan HOST` prints it") from None
        is_key = self._secret.lstrip().startswith("-----BEGIN")
        try:
            keys = [asyncssh.import_private_key(self._secret)] if is_key else None
        except asyncssh.KeyImportError:
            raise FetchFailed("the private key cannot be read: give one without a passphrase") from None
        self._connection = await asyncio.wait_for(
            asyncssh.connect(
                place.host,
                place.port,
                username=place.user,
                password=None if is_key else self._secret,
                client_keys=keys,
                known_hosts=([pinned], [], []),
                config=None,
                agent_path=None,
                connect_timeout=SFTP_CONNECT_SECONDS,
                login_timeout=SFTP_CONNECT_SECONDS,
            ),
            SFTP_CONNECT_SECONDS * 2,
        )
        self._client = await self._connection.start_sftp_client()
        return self._client

    async def _list(self) -> list[ListedFile]:
        client = await self._connected()
        found: list[ListedFile] = []
        number = 0
        async for entry in client.scandir(self._place.path):
            number += 1
            if number > MOST_FILES_LISTED:
                raise FetchFailed(f"the folder has more than {MOST_FILES_LISTED:,} files: move old ones away")
            name, about = str(entry.filename), entry.attrs
            is_file = about.permissions is None or stat.S_ISREG(about.permissions)
            if is_file and "/" not in name and fnmatchcase(name, self._place.pattern):
                found.append(ListedFile(name, int(about.size or 0), int(about.mtime or 0)))
        return found

    async def _copy(self, name: str, target: Path) -> None:
        client = await self._connected()
        async with client.open(str(PurePosixPath(self._place.path) / name), "rb") as file:
            with target.open("wb") as copy:
                written = 0
                while content := await file.read(1 << 18):
                    assert isinstance(content, bytes)  # noqa: S101 (the file is opened so)
                    written += len(content)
                    if written > MOST_FILE_BYTES:
                        raise _too_large(name)
                    copy.write(content)


def _oldest_first(files: list[ListedFile]) -> list[ListedFile]:
    return sorted(files, key=lambda one: (one.modified_at, one.name))


def _too_large(name: str) -> FetchFailed:
    return FetchFailed(f"{name} is larger than {MOST_FILE_BYTES >> 20} MiB: it is no price file")

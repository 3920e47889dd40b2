"""Fetches files from sources: lists them, and copies one at a time, within bounds on size, number and time.

The key of an SFTP server is pinned: another server at its address gets neither the password nor an answer. asyncssh is
loaded only where a source needs it.

A server may fall silent at any word, or send a byte a second. So each listing and each file has a time, and so has a
poll as a whole. When it is over, the connection is aborted: asyncssh would wait for the server's answer to a farewell.
"""

import asyncio
import os
import stat
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from domain.errors import FuelrouteError
from domain.stations.price_sources import PriceSource, SourceAddress
from domain.text import printable

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SSHClientConnection

Result = TypeVar("Result")

MOST_FILE_BYTES = 64 << 20
"""Largest file that is fetched; the largest chain's is below a megabyte."""
MOST_FILES_LISTED = 10_000
LONGEST_FILE_NAME = 255
MOST_FILES_TAKEN = 20
"""Most files of one poll; the rest waits for the next."""
SFTP_CONNECT_SECONDS = 15.0
FETCH_SECONDS = 30.0
"""Time for one listing or one file."""
SOURCE_POLL_SECONDS = 60.0
"""Time for a server in one whole poll."""
_FAREWELL_SECONDS = 1.0
_LATEST = (1 << 32) - 1
"""The last second that SFTP can express."""

PARTIAL_ENDINGS = (
    *(".part", ".filepart", ".partial", ".incomplete", ".upload", ".uploading", ".inprogress", ".writing"),
    *(".tmp", ".temp", ".crdownload", ".download", ".swp", ".lock", "~"),
)
"""Name endings that programs use until a file is complete: WinSCP's is `.filepart`, ExaVault's `.incomplete`, and
authors of SFTP clients advise `.part` and `.upload`."""
PARTIAL_BEGINNINGS = (".", "~$")
"""rsync writes to `.prices.csv.a1B2c3`; Excel keeps `~$prices.xlsx` beside an open file."""


class FetchFailed(FuelrouteError):
    """The source could not be read; the text says why and what to do."""


class FileNotFetched(FetchFailed):
    """One file could not be read; others may be readable."""


class FileChanged(FetchFailed):
    """The file was written while it was read; a later poll takes it."""


class ListedFile(NamedTuple):
    real_name: str
    """The name by which the source has the file, with surrogates for bytes that are not UTF-8."""
    size_bytes: int
    modified_at: int
    """Seconds since 1970; 0 if the server does not tell."""

    @property
    def name(self) -> str:
        """The name as it is stored and shown."""
        return printable(self.real_name)


class OpenSource(Protocol):
    def files(self) -> list[ListedFile]:
        """The files whose names fit, the oldest first. Raises FetchFailed if the source cannot be read."""

    def fetch(self, file: ListedFile, target: Path) -> None:
        """Copy one file as it was listed. Raises FileChanged if it was written meanwhile, FileNotFetched if it cannot
        be read, and FetchFailed if the source stops answering."""


@contextmanager
def open_source(source: PriceSource, secret: str | None) -> Iterator[OpenSource]:
    """Opens the source; `secret` is its opened one. Raises FetchFailed if it cannot be reached."""
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


def is_wanted(name: str, pattern: str) -> bool:
    """True for a fitting name, unless it is one of an incomplete file and the pattern does not ask for such names."""
    if len(name) > LONGEST_FILE_NAME or not fnmatchcase(name, pattern):
        return False
    lower, asked = name.lower(), pattern.lower()
    ends = any(lower.endswith(ending) and not asked.endswith(ending) for ending in PARTIAL_ENDINGS)
    begins = any(lower.startswith(sign) and not asked.startswith(sign) for sign in PARTIAL_BEGINNINGS)
    return not ends and not begins


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
                    if is_wanted(entry.name, self._pattern) and entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):  # it was moved away meanwhile
                            found.append(_listed(entry.name, entry.stat(follow_symlinks=False)))
        except OSError as error:
            raise FetchFailed(f"cannot read the folder {self._folder}: {error.strerror}") from None
        return _oldest_first(found)

    def fetch(self, file: ListedFile, target: Path) -> None:
        _check_size(file)
        try:
            # A link that takes the file's place meanwhile is not followed.
            opened = os.open(self._folder / file.real_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(opened, "rb") as source, target.open("wb") as copy:
                if not stat.S_ISREG(os.fstat(opened).st_mode):
                    raise FileNotFetched(f"{file.name} is no file")
                content = source.read(MOST_FILE_BYTES + 1)
                copy.write(content)
                there = _listed(file.real_name, os.stat(self._folder / file.real_name, follow_symlinks=False))
        except FileNotFoundError:
            raise FileChanged(f"{file.name} is gone") from None
        except OSError as error:
            raise FileNotFetched(f"cannot read {file.name}: {error.strerror}") from None
        _check_unchanged(file, there, len(content))


class _Sftp:
    """A connection, opened when first used. asyncssh is asynchronous, so it has an event loop of its own."""

    def __init__(self, place: SourceAddress, secret: str) -> None:
        self._place, self._secret = place, secret
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # reads that an abort has ended
        self._client: SFTPClient | None = None
        self._connection: SSHClientConnection | None = None
        self._seconds_left = SOURCE_POLL_SECONDS

    def files(self) -> list[ListedFile]:
        return _oldest_first(self._within(self._list()))

    def fetch(self, file: ListedFile, target: Path) -> None:
        _check_size(file)
        there, size_bytes = self._within(self._copy(file, target))
        _check_unchanged(file, there, size_bytes)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            with suppress(OSError):
                self._loop.run_until_complete(self._farewell(self._connection))
        with suppress(RuntimeError):  # a name that is still being resolved has a thread of its own
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _farewell(self, connection: "SSHClientConnection") -> None:
        closing = asyncio.ensure_future(connection.wait_closed())
        await asyncio.wait({closing}, timeout=_FAREWELL_SECONDS)
        if not closing.done():
            connection.abort()
            closing.cancel()
            await asyncio.wait({closing}, timeout=_FAREWELL_SECONDS)

    def _within(self, work: Coroutine[Any, Any, Result]) -> Result:
        import asyncssh

        host, seconds, started = self._place.host, min(FETCH_SECONDS, self._seconds_left), time.monotonic()
        try:
            return self._loop.run_until_complete(self._timed(work, seconds))
        except TimeoutError:
            waited = max(1, round(time.monotonic() - started))
            raise FetchFailed(f"{host} did not answer within {waited} s: ask its people whether it works") from None
        except asyncssh.HostKeyNotVerifiable:
            raise FetchFailed(
                f"{host} has another key than the one that is pinned: if its people have changed it, add the source "
                "again with the new key"
            ) from None
        except asyncssh.PermissionDenied:
            raise FetchFailed(f"{host} refuses the user or the password: add the source again") from None
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.ConnectionLost) as error:
            raise FetchFailed(f"{host} broke the connection off: {_said(error.reason)}") from None
        except asyncssh.SFTPError as error:
            raise FileNotFetched(f"{host} says: {_said(error.reason)}") from None
        except asyncssh.Error as error:
            raise FetchFailed(f"{host} says: {_said(error)}") from None
        except (OSError, ValueError) as error:
            raise FetchFailed(f"cannot connect to {host}:{self._place.port}: {error}") from None
        finally:
            self._seconds_left = max(0.0, self._seconds_left - (time.monotonic() - started))

    async def _timed(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """The result of `work`. After `seconds` it aborts the connection, which ends every wait of `work` at once, and
        raises TimeoutError."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        self._seconds_left = 0.0
        if self._connection is not None:
            self._connection.abort()
            self._connection = self._client = None
            await asyncio.wait({task}, timeout=_FAREWELL_SECONDS)
        task.cancel()
        await asyncio.wait({task}, timeout=_FAREWELL_SECONDS)
        raise TimeoutError

    async def _connected(self) -> "SFTPClient":
        if self._client is not None:
            return self._client
        import asyncssh

        place = self._place
        asyncssh.set_log_level("WARNING")  # it tells of each step of each connection
        try:
            pinned = asyncssh.import_public_key(place.host_key)
        except asyncssh.KeyImportError:
            raise FetchFailed("the server's key cannot be read: give it as `ssh-keyscan HOST` prints it") from None
        is_key = self._secret.lstrip().startswith("-----BEGIN")
        try:
            keys = [asyncssh.import_private_key(self._secret)] if is_key else None
        except asyncssh.KeyImportError:
            raise FetchFailed("the private key cannot be read: give one without a passphrase") from None
        self._connection = await asyncssh.connect(
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
        )
        self._client = await self._connection.start_sftp_client(path_errors="surrogateescape")
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
            if is_file and "/" not in name and is_wanted(name, self._place.pattern):
                found.append(ListedFile(name, int(about.size or 0), int(about.mtime or 0)))
        return found

    async def _copy(self, file: ListedFile, target: Path) -> tuple[ListedFile, int]:
        """The file as it is listed after it was read, and the number of bytes read."""
        client = await self._connected()
        path = str(PurePosixPath(self._place.path) / file.real_name)
        async with client.open(path, "rb") as opened:
            with target.open("wb") as copy:
                written = 0
                while content := await opened.read(1 << 18):
                    assert isinstance(content, bytes)  # noqa: S101 (the file is opened so)
                    written += len(content)
                    if written > file.size_bytes:
                        raise FileChanged(f"{file.name} is being written")
                    copy.write(content)
        about = await client.stat(path)
        return ListedFile(file.real_name, int(about.size or 0), int(about.mtime or 0)), written


def _said(text: object) -> str:
    """The words of a server, which may be anything."""
    return printable(str(text)[:200])


def _listed(name: str, about: os.stat_result) -> ListedFile:
    return ListedFile(name, about.st_size, min(max(0, int(about.st_mtime)), _LATEST))


def _oldest_first(files: list[ListedFile]) -> list[ListedFile]:
    return sorted(files, key=lambda one: (one.modified_at, one.name))


def _check_size(file: ListedFile) -> None:
    if file.size_bytes > MOST_FILE_BYTES:
        raise _too_large(file.name)


def _check_unchanged(file: ListedFile, there: ListedFile, size_bytes: int) -> None:
    """Check that the file has not changed. Raises FileChanged if it has: the bytes may be half of one file and half of
    another."""
    if there != file or size_bytes != file.size_bytes:
        raise FileChanged(f"{file.name} is being written")


def _too_large(name: str) -> FileNotFetched:
    return FileNotFetched(f"{name} is larger than {MOST_FILE_BYTES >> 20} MiB: it is no price file")

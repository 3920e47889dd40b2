"""The rehearsal: machines and processes are taken away one after the other while callers push; what they meet is
measured, and at the end each push that was answered 2xx is looked for."""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import redis

from deploy.cluster.load import ANSWER_SECONDS, TRUCKS, Gateway, Load
from deploy.cluster.machines import CannotRehearse, Machine, command, wait_for
from deploy.cluster.setup import Cluster, check_programs, running_cluster, status_of
from deploy.stack import PROCESSES
from domain.errors import FuelrouteError
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import redis_client

_STEADY_SECONDS = 8
_LONGEST_SECONDS = 120
_LEAST_SECONDS = ANSWER_SECONDS + 5
"""Least time after a fault that is watched: a push under way may fail only when its caller's patience ends."""
_STATIONS = Path(__file__).parents[1] / "demo" / "stations.csv"


class Result(NamedTuple):
    """One row of the table."""

    fault: str
    seconds_without_2xx: float
    pushes: int
    failures: dict[str, int]
    seconds_until_empty: float
    seconds_until_whole: float
    remark: str


Fault = Callable[["Rehearsal"], str]


class Rehearsal:
    """A running set-up under load."""

    def __init__(self, cluster: Cluster, load: Load, gateway: Gateway) -> None:
        self.cluster = cluster
        self.load = load
        self.gateway = gateway
        self.jobs = JobQueue(redis_client(cluster.redis_url))
        self._restore: list[Callable[[], object]] = []

    def pause(self, seconds: float) -> None:
        """Lets time pass, in which supervisors do their work."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.cluster.tend()
            time.sleep(0.1)

    def until(self, look: Callable[[], bool], what: str, seconds: float = _LONGEST_SECONDS) -> float:
        return wait_for(look, what, seconds, self.cluster.tend)

    def answers_again(self, since: float) -> bool:
        """True once pushes are answered 2xx, for some seconds without a failure."""
        latest = [one for one in self.load.answers if one.at > max(since, time.monotonic() - 3)]
        return len(latest) > 20 and all(one.status.startswith("2") for one in latest)

    def is_empty(self) -> bool:
        """True when no job waits, and no route waits for its import."""
        try:
            if any(self.jobs.length(queue).waiting > 2 for queue in QUEUES):  # of the load of this moment
                return False
            with psycopg.connect(self.cluster.direct_url, connect_timeout=2) as connection:
                late = "SELECT FROM routes WHERE status = 'pending' AND created_at < now() - interval '3 seconds'"
                return connection.execute(f"{late} LIMIT 1").rowcount == 0
        except Exception:  # a server is away: nobody knows
            return False

    def afterwards(self, restore: Callable[[], object]) -> None:
        """Mends something once the outage has been measured."""
        self._restore.append(restore)

    def run(self, name: str, fault: Fault) -> Result:
        self.pause(_STEADY_SECONDS)
        started = time.monotonic()
        remark = fault(self)
        self.pause(started + _LEAST_SECONDS - time.monotonic())
        self.until(lambda: self.answers_again(started), "answers 2xx")
        outage = self.load.since(started)
        self.until(self.is_empty, "empty queues")
        emptied = time.monotonic() - started
        for restore in self._restore:
            restore()
        self._restore.clear()
        mended = time.monotonic()
        self.until(self.cluster.is_whole, "the whole set-up", 180)
        return Result(
            name,
            round(outage.seconds, 1),
            outage.pushes,
            dict(outage.failures),
            round(emptied, 1),
            round(time.monotonic() - mended, 1),
            remark,
        )


# --- Faults ----------------------------------------------------------------------------------------------------------


def primary_killed(here: Rehearsal) -> str:
    """The primary's machine loses power: PostgreSQL, Patroni, etcd and PgBouncer end, and no connection is closed."""
    lost = _primary(here)
    lost.lose_power()
    here.afterwards(lost.power_on)
    here.until(lambda: here.cluster.primary() not in (None, lost), "another primary")
    return f"{lost.name} -> {_primary(here).name}"


def primary_partitioned(here: Rehearsal) -> str:
    """The primary's network is gone, and comes back after half a minute. Meanwhile it is asked on the machine itself
    whether it takes changes: never together with another one."""
    lost = _primary(here)
    lost.unplug()
    here.afterwards(lost.plug_in)
    both = 0
    alone_until = started = time.monotonic()
    while time.monotonic() - started < 45:
        here.cluster.tend()
        takes_changes = _takes_changes(lost)
        other = next((one for one in here.cluster.databases if one is not lost and _takes_changes(one)), None)
        both += takes_changes and other is not None
        if takes_changes:
            alone_until = time.monotonic()
        if other is not None and not takes_changes:
            break
        time.sleep(0.2)
    return f"the old primary took changes for {alone_until - started:.0f} s more; two at a time: {both} samples"


def application_killed(here: Rehearsal) -> str:
    """An application machine loses power: the one whose scheduler leads or not, whichever is the first."""
    lost = here.cluster.applications[0]
    lost.lose_power()
    here.afterwards(lost.power_on)
    return lost.name


def redis_killed(here: Rehearsal) -> str:
    """The machine of the Redis primary loses power, with its Sentinel."""
    address = _redis_primary(here)
    lost = next(one for one in here.cluster.queues if one.address == address)
    lost.lose_power()
    here.afterwards(lost.power_on)
    here.until(lambda: _redis_primary(here, skip=lost) not in ("", lost.address), "another Redis primary")
    return lost.name


def etcd_leader_killed(here: Rehearsal) -> str:
    """The process of etcd that leads is killed, and started again by its supervisor."""
    lost = here.cluster.etcd_leader()
    lost.children["etcd"].kill_group()
    here.pause(5)
    return f"{lost.name} -> {here.cluster.etcd_leader().name}"


def backend_killed(here: Rehearsal) -> str:
    """The ingress process of one machine is killed under HAProxy, and started again by its supervisor."""
    here.cluster.applications[1].children["ingress"].kill_group()
    here.pause(5)
    return here.cluster.applications[1].name


def backend_drained(here: Rehearsal) -> str:
    """HAProxy is told to use one ingress only, as before work on a machine."""
    here.cluster.haproxy("set server ingress/app2 state maint")
    here.afterwards(lambda: here.cluster.haproxy("set server ingress/app2 state ready"))
    here.pause(5)
    return "app2"


def switchover(here: Rehearsal) -> str:
    """A planned change of the primary, by Patroni."""
    before = _primary(here)
    settings = str(before.folder / "patroni.yml")
    standby = next(one for one in here.cluster.databases if _is_synchronous(one))
    command("patronictl", "-c", settings, "switchover", "--master", before.name, "--candidate", standby.name, "--force")
    here.until(lambda: here.cluster.primary() is standby, "the candidate as primary")
    return f"{before.name} -> {standby.name}"


def rolling_upgrade(here: Rehearsal) -> str:
    """Every process of the applications is restarted, one after the other, as an upgrade does."""
    for machine in here.cluster.applications:
        for name in PROCESSES:
            machine.restart(name)
            here.until(here.cluster.is_ready, f"{name} on {machine.name}")
    return f"{len(PROCESSES) * len(here.cluster.applications)} processes"


FAULTS: dict[str, Fault] = {
    "primary-killed": primary_killed,
    "primary-partitioned": primary_partitioned,
    "application-killed": application_killed,
    "redis-killed": redis_killed,
    "etcd-leader-killed": etcd_leader_killed,
    "backend-killed": backend_killed,
    "backend-drained": backend_drained,
    "switchover": switchover,
    "rolling-upgrade": rolling_upgrade,
}


def _primary(here: Rehearsal) -> Machine:
    primary = here.cluster.primary()
    if primary is None:
        raise CannotRehearse("there is no primary")
    return primary


def _is_synchronous(machine: Machine) -> bool:
    return status_of(f"http://{machine.address}:8008/synchronous") == 200


def _takes_changes(machine: Machine) -> bool:
    """Asks PostgreSQL on the machine itself: its socket needs no network."""
    asked = ("psql", "-h", str(machine.folder), "-U", "postgres", "-Atc", "SELECT NOT pg_is_in_recovery()")
    return command("timeout", "1", *asked, check=False).strip() == "t"


def _redis_primary(here: Rehearsal, skip: Machine | None = None) -> str:
    for machine in here.cluster.queues:
        if machine is not skip:
            with redis_client(f"redis://{machine.address}:26379") as sentinel, suppress(redis.RedisError):
                return bytes(sentinel.sentinel_get_master_addr_by_name("fuelroute")[0]).decode()
    return ""


# --- The whole -------------------------------------------------------------------------------------------------------


def make_company(cluster: Cluster, message_url: str) -> list[str]:
    """A company with trucks, prices and six keys, of which each may make 600 requests a minute."""
    made = json.loads(cluster.fuelroute("companies", "create", "--name", "Rehearsal", "--json"))["id"]
    cluster.fuelroute("companies", "set", made, "--message-url", message_url)
    trucks, drivers = cluster.folder / "trucks.csv", cluster.folder / "drivers.csv"
    trucks.write_text(
        "unit_number,vin,license_plate,make,model,year,fuel_tank_capacity_gallons,mpg\n"
        + "".join(f"T{number},,,,,,200,6.5\n" for number in range(TRUCKS))
    )
    drivers.write_text("name,display_name,external_id,contact\n" + "".join(f"Driver {n},,,\n" for n in range(TRUCKS)))
    cluster.fuelroute("vehicles", "import", "--company", made, str(trucks))
    cluster.fuelroute("drivers", "import", "--company", made, str(drivers))
    cluster.fuelroute("stations", "import", str(_STATIONS))
    scopes = ("--scope", "routes:write", "--scope", "positions:write")
    create = ("keys", "create", "--company", made, "--environment", "live", *scopes, "--json", "--name")
    return [json.loads(cluster.fuelroute(*create, f"load {n}"))["key"] for n in range(6)]


def verdict(here: Rehearsal) -> dict[str, Any]:
    """Count lost and doubled pushes and messages, once everything is quiet."""
    here.until(here.is_empty, "empty queues")
    with psycopg.connect(here.cluster.direct_url) as connection:
        stored = {row[0] for row in connection.execute("SELECT external_id FROM routes").fetchall()}
        twice = connection.execute(
            "SELECT count(*) FROM (SELECT external_id FROM routes GROUP BY external_id HAVING count(*) > 1) AS twice"
        ).fetchone()
    deadline = time.monotonic() + 60
    while here.load.journeys - set(here.gateway.received) and time.monotonic() < deadline:
        here.pause(1)
    received = here.gateway.received
    return {
        "pushes": len(here.load.answers),
        "answered_2xx": len(here.load.accepted),
        "lost": len(here.load.accepted - stored),
        "stored_twice": twice[0] if twice is not None else None,
        "journeys": len(here.load.journeys),
        "messages_missing": len(here.load.journeys - set(received)),
        "messages_doubled": sum(count > 1 for count in received.values()),
    }


def rehearse(names: Sequence[str], folder: Path) -> dict[str, Any]:
    results = []
    with running_cluster(folder) as cluster, Gateway() as gateway:
        wait_for(cluster.is_whole, "the whole set-up", 90, cluster.tend)
        keys = make_company(cluster, gateway.url)
        with Load(cluster.api_url, keys) as load:
            here = Rehearsal(cluster, load, gateway)
            here.until(lambda: here.answers_again(0), "the first answers")
            for name in names:
                result = here.run(name, FAULTS[name])
                print(json.dumps(result._asdict()), flush=True)
                results.append(result)
            here.pause(_STEADY_SECONDS)
        found = verdict(here)
    print(json.dumps(found), flush=True)
    about = {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "processors": os.cpu_count(),
        "on": platform.platform(),
    }
    return {**about, "faults": [one._asdict() for one in results], "in_all": found}


def as_table(results: dict[str, Any]) -> str:
    """The results as README.md shows them."""
    lines = [
        "| fault | seconds without a 2xx | pushes, of them failed | queues empty after | whole again after mending | |",
        "|---|---|---|---|---|---|",
    ]
    for one in results["faults"]:
        failed = ", ".join(f"{count} x {status}" for status, count in sorted(one["failures"].items())) or "none"
        figures = f"{one['seconds_without_2xx']} | {one['pushes']}: {failed} | {one['seconds_until_empty']} s"
        lines.append(f"| `{one['fault']}` | {figures} | {one['seconds_until_whole']} s | {one['remark']} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="deploy/cluster/rehearse", description=__doc__)
    names = ", ".join(FAULTS)
    parser.add_argument("faults", nargs="*", help=f"faults to rehearse, in this order; all unless named: {names}")
    parser.add_argument("--keep", action="store_true", help="keep the logs of all processes")
    parser.add_argument("--output", type=Path, help="write the results to this file as JSON")
    arguments = parser.parse_args()
    if os.getuid() != 0:
        print("rehearse: needs root, for network namespaces and the users of the servers", file=sys.stderr)
        return 2
    unknown = [name for name in arguments.faults if name not in FAULTS]
    if unknown:
        print(f"rehearse: no such fault: {', '.join(unknown)}; choose from {names}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was made is removed then, too
    folder = Path(tempfile.mkdtemp(prefix="fuelroute-cluster-"))
    folder.chmod(0o755)  # the servers run as users of their own
    try:
        check_programs()
        results = rehearse(arguments.faults or list(FAULTS), folder)
    except KeyboardInterrupt:
        print(f"rehearse: interrupted; the logs stay in {folder}", file=sys.stderr)
        return 130
    except (FuelrouteError, TimeoutError) as error:
        print(f"rehearse: {error}; the logs stay in {folder}", file=sys.stderr)
        return 1
    print(as_table(results))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(results, indent=2) + "\n")
    if arguments.keep:
        print(f"logs in {folder}")
    else:
        shutil.rmtree(folder)
    found = results["in_all"]
    return 1 if found["lost"] or found["stored_twice"] or found["messages_doubled"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

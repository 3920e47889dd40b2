"""The faults of the rehearsal: each is made, waits for its alert, and takes the steps of the runbook."""

import base64
import os
import secrets
import shutil
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from deploy.backups.archive import archive_spec, end_archive, progress_of_archive, superuser
from deploy.monitoring.broken_stack import STATIONS, Prometheus, Servers, Stack, ports_of_processes, until
from deploy.monitoring.rehearsed_fault import Fault, Rehearsal
from deploy.processes import Child
from domain.ids import shown_id
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.queue.redis_clients import redis_client

RESTORE = "restore"
_PAUSE_IS_READ_SECONDS = 4


def _key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


FIRST_KEY = _key()
"""The key of contacts when the stack starts."""


def queue_stuck(it: Rehearsal) -> None:
    pid = it.stack.pid_of("plans")
    it.fault("the worker of plans freezes (SIGSTOP), and a truck arrives", lambda: os.kill(pid, signal.SIGSTOP))
    route = it.stack.start_route()
    it.fires("FuelrouteQueueStuck", queue="plans")
    it.look("fuelroute queues", it.stack.headline())
    it.do(
        f"kill -9 {pid}, the worker of plans; its supervisor starts another one", lambda: os.kill(pid, signal.SIGKILL)
    )
    it.ends()
    it.stack.wait_for(route, "active")
    it.proof("the truck has its plan: the route is active")


def no_leader(it: Rehearsal) -> None:
    pid = it.stack.pid_of("scheduler")
    it.fault("the scheduler freezes (SIGSTOP)", lambda: os.kill(pid, signal.SIGSTOP))
    it.fires("FuelrouteNoLeader")
    it.look("Prometheus, up == 0", ", ".join(it.prometheus.instances("up == 0")))
    it.do(f"kill -9 {pid}, the scheduler; its supervisor starts another one", lambda: os.kill(pid, signal.SIGKILL))
    it.ends()
    it.proof(f"{it.prometheus.value('sum(fuelroute_scheduler_leads)'):g} scheduler leads")


def no_ingress(it: Rehearsal) -> None:
    pid = it.stack.pid_of("ingress")
    it.fault("the ingress freezes (SIGSTOP)", lambda: os.kill(pid, signal.SIGSTOP))
    it.fires("FuelrouteNoIngress")
    it.do(f"kill -9 {pid}, the ingress; its supervisor starts another one", lambda: os.kill(pid, signal.SIGKILL))
    it.ends()
    it.proof(f"a push is answered {it.stack.push(it.stack.next_truck()).status_code}")


def dead_letters(it: Rehearsal) -> None:
    def rights(change: str) -> None:
        with psycopg.connect(it.servers.postgres.url, autocommit=True) as connection:
            connection.execute(f"{change} fuelroute_service")

    it.stack.fuelroute("queues", "pause", "messages", "--reason", "so that a message waits")
    time.sleep(_PAUSE_IS_READ_SECONDS)
    route = it.stack.start_route()
    it.stack.wait_for(route, "planned")
    it.fault(
        "a mistake: the service may not change messages any more", lambda: rights("REVOKE UPDATE ON messages FROM")
    )
    it.stack.fuelroute("queues", "resume", "messages", "--reason", "now it is sent")
    it.fires("FuelrouteDeadLettersGrowing", queue="messages")
    letters = it.stack.document("queues", "dead", "--queue", "messages")
    it.look("fuelroute queues dead --queue messages", letters[0]["error"] or letters[0]["job"])
    it.do("GRANT UPDATE ON messages TO fuelroute_service", lambda: rights("GRANT UPDATE ON messages TO"))
    it.command("queues", "replay", "--queue", "messages", "--reason", "the right is back", "--yes")
    it.ends()
    it.stack.wait_for(route, "active")
    left = len(it.stack.document("queues", "dead"))
    it.proof(f"the message is sent: the route is active; {left} dead letters are left")


class Gateway:
    """A gateway for messages on this machine, which fails until it is repaired."""

    def __init__(self) -> None:
        self.status = 500
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(gateway.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def mend(self) -> None:
        self.status = 200


def messages_failing(it: Rehearsal) -> None:
    gateway = Gateway()
    it.fault("a gateway answers 500 to every message")
    routes = []
    for _ in range(10):
        truck = it.stack.next_truck()
        it.stack.give_contact(truck, f"json://127.0.0.1:{gateway.server.server_port}/")
        routes.append(it.stack.start_route(truck))
        time.sleep(2)
    it.fires("FuelrouteMessagesFailing")
    error = next(
        one["error"] for one in it.stack.document("messages", "list", "--company", it.stack.company) if one["error"]
    )
    it.look("fuelroute messages list --company ID", error)
    it.do("the gateway is mended; the service tries again by itself", gateway.mend)
    it.ends()
    for route in routes:
        it.stack.wait_for(route, "active", seconds=240)
    it.proof(f"all {len(routes)} routes are active; nothing was sent again by hand")
    gateway.server.shutdown()


def prices_old(it: Rehearsal) -> None:
    def age() -> None:
        with psycopg.connect(it.servers.postgres.url, autocommit=True) as connection:
            connection.execute("UPDATE stations SET priced_at = now() - interval '8 days'")

    it.fault("no prices have been imported for 8 days (set in the database)", age)
    it.fires("FuelroutePricesOld")
    it.look(
        "fuelroute queues overdue stale-prices",
        f"{len(it.stack.document('queues', 'overdue', 'stale-prices'))} stations",
    )
    it.command("stations", "import", os.path.relpath(STATIONS))
    it.ends()
    it.proof(f"{len(it.stack.document('queues', 'overdue', 'stale-prices'))} stations have old prices")


def database_away(it: Rehearsal) -> None:
    it.fault("PostgreSQL stops", lambda: it.servers.stop("postgres", signal.SIGINT))
    it.fires("FuelrouteDatabaseAway")
    it.look("a push", f"is answered {it.stack.push(it.stack.next_truck()).status_code}")
    it.do("start PostgreSQL", lambda: it.servers.start("postgres"))
    it.ends()
    it.proof(f"a push is answered {it.stack.push(it.stack.next_truck()).status_code}; no process was restarted by hand")


def database_restarted(it: Rehearsal) -> None:
    def restart() -> None:
        it.servers.stop("postgres", signal.SIGINT)
        it.servers.start("postgres")

    truck = it.stack.next_truck()
    it.fault("PostgreSQL is restarted in place", restart)
    it.look("a push right after it", f"is answered {it.stack.push(truck).status_code}")
    it.fires("FuelrouteDatabaseRestarted")
    it.look("fuelroute doctor", it.stack.fuelroute("doctor").strip().splitlines()[-1])
    it.do("nothing: the alert ends when the start is 15 minutes ago", lambda: None)
    it.ends()


def database_read_only(it: Rehearsal) -> None:
    """New sessions take no changes, and the others are ended, as providers do when the disk is full."""

    def change(setting: str) -> None:
        with superuser(it.servers.postgres) as connection:
            connection.execute(f"ALTER DATABASE fuelroute {setting}")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'fuelroute'")

    it.fault("PostgreSQL is made read-only", lambda: change("SET default_transaction_read_only = on"))
    it.fires("FuelrouteDatabaseReadOnly")
    it.look("a push", f"is answered {it.stack.push(it.stack.next_truck()).status_code}")
    it.look("fuelroute queues", it.stack.headline())
    it.do(
        "ALTER DATABASE fuelroute RESET default_transaction_read_only",
        lambda: change("RESET default_transaction_read_only"),
    )
    it.ends()
    it.proof(f"a push is answered {it.stack.push(it.stack.next_truck()).status_code}; no process was restarted by hand")


def archive_behind(it: Rehearsal) -> None:
    """The archive of `fuelroute up`, here beside a server of its own."""
    folder, log = it.stack.folder / "archive", it.stack.folder / "archive.log"
    archive = Child(archive_spec(it.servers.postgres, folder, log))

    until(lambda: it.prometheus.value("max(fuelroute_archive_works)") == 1, "the archive works")
    it.fault("the archive stops: pg_receivewal is killed", archive.kill_group)
    it.fires("FuelrouteArchiveBehind")
    it.look("fuelroute doctor", it.stack.document("doctor")["findings"][0]["what"])
    again: list[Child] = []
    it.do("start it again", lambda: again.append(Child(archive_spec(it.servers.postgres, folder, log))))
    it.ends()
    with superuser(it.servers.postgres) as connection:
        state = progress_of_archive(connection)
    it.proof(f"the archive is {state.bytes_behind} bytes behind")
    again[0].kill_group()
    with superuser(it.servers.postgres) as connection:
        end_archive(connection)


def redis_away(it: Rehearsal) -> None:
    def lose() -> None:
        it.servers.stop("redis", signal.SIGKILL)
        shutil.rmtree(it.servers.data / "redis")

    it.fault("Valkey is killed, and all its data are lost", lose)
    pushed = it.stack.push(it.stack.next_truck())
    it.look("a push", f"is answered {pushed.status_code} {pushed.json()['status']}")
    it.fires("FuelrouteRedisAway")
    it.do("start Valkey, empty", lambda: it.servers.start("redis"))
    it.ends()
    it.stack.wait_for(pushed.json()["id"], "draft")
    it.proof("the route that was pushed meanwhile is a draft")


def disk_filling(it: Rehearsal) -> None:
    if it.disk is None:
        it.say("left", "out: only root can make a small disk")
        return
    ballast, rest = it.disk / "ballast", it.disk / "rest"
    it.fault("the disk of PostgreSQL's data is filled to 95 %", lambda: _fill(ballast, leave=0.05))
    it.fires("FuelrouteDiskFilling")
    usage = shutil.disk_usage(it.disk)
    it.look("df", f"{usage.free >> 20} MB of {usage.total >> 20} MB are free")
    it.fault("nobody acts: the disk is full, and somebody writes", lambda: _fill(rest, leave=0))
    answers = _push_while_writing(it, seconds=10)
    it.look("pushes meanwhile", ", ".join(f"{count} answered {status}" for status, count in answers.items()))

    def free_space() -> None:
        ballast.unlink()
        rest.unlink()

    it.do("free space (here the files that fill the disk are deleted)", free_space)
    if not it.servers.is_up("postgres"):
        it.do("start PostgreSQL, which had stopped", lambda: it.servers.start("postgres"))
    it.ends()
    it.proof(f"a push is answered {it.stack.push(it.stack.next_truck()).status_code}")


def _fill(file: Path, *, leave: float) -> None:
    """Makes a file that leaves this part of the disk free."""
    usage = shutil.disk_usage(file.parent)
    with file.open("wb") as new:
        os.posix_fallocate(new.fileno(), 0, max(1, int(usage.free - leave * usage.total)))


def _push_while_writing(it: Rehearsal, *, seconds: float) -> Counter[int]:
    """Pushes every second beside a stranger who writes 20 MB at a time. Returns the statuses of the answers."""
    answers: Counter[int] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(psycopg.Error), psycopg.connect(it.servers.postgres.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS stranger (text text)")
            connection.execute("INSERT INTO stranger SELECT repeat(n::text, 900) FROM generate_series(1, 20000) n")
        answers[it.stack.push(it.stack.next_truck()).status_code] += 1
        time.sleep(1)
    return answers


def noisy_company(it: Rehearsal) -> None:
    company, over = uuid4(), threading.Event()

    def flood() -> None:
        with redis_client(it.servers.redis.url) as client:
            jobs = JobQueue(client)
            while not over.is_set():
                jobs.put(*(build_plan_job(uuid4(), company) for _ in range(2000)))
                over.wait(0.2)

    it.fault("one company enqueues thousands of plans a second", threading.Thread(target=flood, daemon=True).start)
    it.fires("FuelrouteNoisyCompany", queue="plans")
    first = it.stack.document("queues", "backlogs")[0]
    it.look("fuelroute queues backlogs", f"{first['jobs']:,} jobs of {first['company_id']} in {first['queue']}")
    assert first["company_id"] == shown_id("cmp", company)  # noqa: S101
    seconds = until_active(it.stack)
    it.look("a truck of another company arrives", f"its route is active after {seconds:.1f} s")
    it.do("stop the source: fuelroute keys revoke, or talk to the company", over.set)
    it.ends()
    it.proof("the backlog is worked off")


def until_active(stack: Stack) -> float:
    route = stack.start_route()
    started = time.monotonic()
    stack.wait_for(route, "active")
    return time.monotonic() - started


def outage(it: Rehearsal) -> None:
    pause = ("queues", "pause", "imports", "--reason", "rehearsal")
    it.fault("nothing is imported: the queue imports is paused", lambda: it.stack.fuelroute(*pause))
    time.sleep(_PAUSE_IS_READ_SECONDS)
    pushed = [it.stack.push(it.stack.next_truck()) for _ in range(5)]
    it.look("five pushes", f"are answered {', '.join(str(one.status_code) for one in pushed)}")
    it.fires("FuelroutePushesNotImported")
    it.look("fuelroute queues", it.stack.headline())
    it.command("queues", "resume", "imports", "--reason", "the outage is over")
    it.ends()
    for one in pushed:
        it.stack.wait_for(one.json()["id"], "draft")
    it.proof("all five routes are drafts; nothing was pushed again")


def rotate_secrets(it: Rehearsal) -> None:
    stack, second = it.stack, _key()
    stack.give_contact(stack.next_truck(), "json://127.0.0.1:9/")

    def restart(keys: str) -> None:
        stack.stop()
        stack.env["FUELROUTE_CONTACT_KEY"] = keys
        stack.start()

    it.fault("a mistake: the key of contacts is replaced, and the old one is gone", lambda: restart(second))
    it.fires("FuelrouteContactsUnreadable")
    it.do(
        "FUELROUTE_CONTACT_KEY=NEW,OLD and restart: housekeeping seals anew", lambda: restart(f"{second},{FIRST_KEY}")
    )
    it.ends()
    it.do("FUELROUTE_CONTACT_KEY=NEW and restart, when no contact is sealed with OLD", lambda: restart(second))
    until(lambda: it.prometheus.value("max(fuelroute_unreadable_contacts)") == 0, "contacts are readable")
    it.proof("0 contacts are unreadable with the new key alone")
    old_key = stack.key
    made = stack.document(
        "keys",
        "create",
        "--company",
        stack.company,
        "--name",
        "second",
        "--environment",
        "live",
        "--scope=routes:write",
        "--scope=routes:read",
        "--scope=positions:write",
    )
    keys = stack.document("keys", "list", "--company", stack.company)
    stack.key = made["key"]
    first = next(one["id"] for one in keys if one["id"] != made["id"])
    it.do(
        "an API key: fuelroute keys create, hand it over, keys revoke OLD",
        lambda: stack.fuelroute("keys", "revoke", first),
    )
    answers = [
        httpx.get(f"http://127.0.0.1:{stack.api_port}/v1/me", headers={"Authorization": f"Bearer {key}"}).status_code
        for key in (stack.key, old_key)
    ]
    it.proof(f"the new key is answered {answers[0]}, the old one {answers[1]}")


def restore(folder: Path) -> list[str]:
    """The machine with the database is lost. The stack of this rehearsal runs the embedded servers, with an archive."""
    folder.mkdir()
    data, archive, restored = folder / "data", folder / "archive", folder / "restored"
    key = folder / "contact.key"
    ports = ports_of_processes()
    stack = Stack(folder, {"FUELROUTE_DATA": str(data)}, ports)
    prometheus = Prometheus(folder / "prometheus", ports)
    it = Rehearsal(stack, Servers(folder / "none"), prometheus, None)
    print("\nrestore", flush=True)
    with ExitStack() as life:
        life.callback(stack.stop)
        stack.start("--archive", str(archive))
        stack.make_company()
        stack.fuelroute("queues", "pause", "messages", "--reason", "so that a message waits")
        shutil.copy(data / "contact.key", key)
        time.sleep(_PAUSE_IS_READ_SECONDS)
        watcher = prometheus.start()
        life.callback(watcher.wait)
        life.callback(watcher.terminate)
        route = stack.start_route()
        stack.wait_for(route, "planned")
        stack.fuelroute("backup", "--to", str(archive))

        def lose() -> None:
            stack.stop()
            shutil.rmtree(data)

        it.fault("the machine is lost with its data, while a plan waits to be sent", lose)
        stack.env["FUELROUTE_DATA"] = str(restored)
        it.command("restore", "--from", str(archive), "--data", str(restored), "--contact-key", str(key))
        it.do(
            "fuelroute up --data restored --archive ARCHIVE-2",
            lambda: stack.start("--archive", str(folder / "archive-2")),
        )
        it.fires("FuelrouteMessagesWithheld")
        withheld = stack.document("messages", "withheld")
        it.look("fuelroute messages withheld", f"{len(withheld)} message, of a driver who says that he has none")
        it.command("messages", "release", withheld[0]["id"], "--reason", "asked the driver")
        it.command("queues", "resume", "messages", "--reason", "restored")
        it.ends()
        stack.wait_for(route, "active")
        it.proof("the driver has the plan: the route is active")
    return it.lines


FAULTS: dict[str, Fault] = {
    "queue-stuck": queue_stuck,
    "dead-letters": dead_letters,
    "no-leader": no_leader,
    "no-ingress": no_ingress,
    "messages-failing": messages_failing,
    "prices-old": prices_old,
    "database-restarted": database_restarted,
    "database-away": database_away,
    "database-read-only": database_read_only,
    "archive-behind": archive_behind,
    "redis-away": redis_away,
    "noisy-company": noisy_company,
    "outage": outage,
    "rotate-secrets": rotate_secrets,
    "disk-filling": disk_filling,
}

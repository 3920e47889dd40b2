"""Rehearses the runbook: each fault is made, its alert fires in a real Prometheus, the runbook's steps mend it, and the
alert ends. The output stands in the runbook.

    deploy/monitoring/rehearse [--write] [FAULT ...]
"""

import argparse
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from deploy.monitoring.broken_stack import (
    FASTER,
    Alert,
    NotInTime,
    Prometheus,
    Servers,
    Stack,
    ports_of_processes,
    small_disk,
    until,
)

RUNBOOK = Path(__file__).parents[1] / "runbook.md"
_DISK_MEGABYTES = 1200
_PATIENCE_SECONDS = 300


class Rehearsal:
    """One fault, told line by line with the time of each step."""

    def __init__(self, stack: Stack, servers: Servers, prometheus: Prometheus, disk: Path | None) -> None:
        self.stack = stack
        self.servers = servers
        self.prometheus = prometheus
        self.disk = disk
        """The small disk; None: there is none."""
        self.lines: list[str] = []
        self._began = 0.0
        self._alert = Alert("", {})

    def say(self, what: str, text: str) -> None:
        line = f"{datetime.now(UTC):%H:%M:%S} {what + ':':<7} {text}"
        self.lines.append(line[:119])
        print(line, flush=True)

    def fault(self, text: str, make: Callable[[], object] = lambda: None) -> None:
        self.say("fault", text)
        self._began = time.monotonic()
        make()

    def fires(self, name: str, **labels: str) -> None:
        """Waits until the alert fires."""
        self._alert = Alert(name, labels)
        until(self._is_firing, f"{name} fires", _PATIENCE_SECONDS)
        shown = ", ".join(f"{label} {value}" for label, value in labels.items())
        text = f"{name}{f' ({shown})' if shown else ''}, {time.monotonic() - self._began:.0f} s later"
        self.say("fires", text)

    def look(self, command: str, found: str) -> None:
        self.say("look", f"{command} -> {found}")

    def do(self, text: str, act: Callable[[], object]) -> None:
        self.say("do", text)
        self._began = time.monotonic()
        act()

    def command(self, *arguments: str) -> None:
        """Takes a step that is a command."""
        shown = shlex.join(arguments).replace(f"{self.stack.folder}/", "")
        self.do(f"fuelroute {shown}", lambda: self.stack.fuelroute(*arguments))

    def ends(self) -> None:
        """Waits until the alert that fired last fires no more."""
        until(lambda: not self._is_firing(), f"{self._alert.name} ends", _PATIENCE_SECONDS)
        self.say("ends", f"{self._alert.name}, {time.monotonic() - self._began:.0f} s later")

    def proof(self, text: str) -> None:
        self.say("proof", text)

    def wait_for_calm(self) -> None:
        """Waits until every process is scraped, and nothing fires or is about to fire because of an earlier fault."""
        with suppress(NotInTime):
            until(self.prometheus.is_calm, "nothing fires", _PATIENCE_SECONDS)
        for one in self.prometheus.firing():
            self.say("note", f"{one.name} fires before it")

    def _is_firing(self) -> bool:
        wanted = set(self._alert.labels.items())
        return any(
            one.name == self._alert.name and wanted <= set(one.labels.items()) for one in self.prometheus.firing()
        )


Fault = Callable[[Rehearsal], None]


def main() -> None:
    from deploy.monitoring.faults import FAULTS, RESTORE, restore

    names = [*FAULTS, RESTORE]
    options = argparse.ArgumentParser(prog="deploy/monitoring/rehearse", description=__doc__)
    options.add_argument("--write", action="store_true", help="put the output into deploy/runbook.md")
    options.add_argument("faults", nargs="*", metavar="FAULT", help=f"one of {', '.join(names)}; all unless named")
    given = options.parse_args()
    if unknown := set(given.faults) - set(names):
        options.error(f"there is no fault {', '.join(sorted(unknown))}")
    wanted = [name for name in names if name in given.faults or not given.faults]
    print(f"times of the rules are {FASTER} times shorter", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="fuelroute-rehearsal-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user
    try:
        outputs = _rehearse({name: FAULTS[name] for name in wanted if name in FAULTS}, folder / "one")
        if RESTORE in wanted:
            outputs[RESTORE] = restore(folder / "two")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if given.write:
        RUNBOOK.write_text(with_outputs(RUNBOOK.read_text(), outputs))
    if len(outputs) < len(wanted):
        raise SystemExit(f"failed: {', '.join(name for name in wanted if name not in outputs)}")


def _rehearse(faults: dict[str, Fault], folder: Path) -> dict[str, list[str]]:
    outputs: dict[str, list[str]] = {}
    if not faults:
        return outputs
    with ExitStack() as life:
        data = folder / "data"
        has_disk = life.enter_context(small_disk(data, _DISK_MEGABYTES))
        servers = Servers(data)
        life.callback(servers.stop_all)
        servers.start("postgres")
        servers.start("redis")
        ports = ports_of_processes()
        stack = Stack(folder, _addresses(servers), ports)
        life.callback(stack.stop)
        stack.start()
        stack.make_company()
        prometheus = Prometheus(folder / "prometheus", ports)
        watcher = prometheus.start()
        life.callback(watcher.wait)
        life.callback(watcher.terminate)
        for name, fault in faults.items():
            rehearsal = Rehearsal(stack, servers, prometheus, data if has_disk else None)
            rehearsal.wait_for_calm()
            print(f"\n{name}, {datetime.now(UTC):%Y-%m-%d}", flush=True)
            try:
                fault(rehearsal)
                outputs[name] = rehearsal.lines
            except NotInTime as error:  # the next fault may still be rehearsed
                rehearsal.say("failed", str(error))
    return outputs


def _addresses(servers: Servers) -> dict[str, str]:
    from deploy.monitoring.faults import FIRST_KEY

    return {
        "FUELROUTE_DATABASE_URL": servers.postgres.url,
        "FUELROUTE_REDIS_URL": servers.redis.url,
        "FUELROUTE_DATA": str(servers.data),
        "FUELROUTE_CONTACT_KEY": FIRST_KEY,
    }


def with_outputs(runbook: str, outputs: dict[str, list[str]]) -> str:
    """The runbook with the output of these rehearsals, each after its line "Rehearsed DATE, `FAULT`:"."""
    for name, lines in outputs.items():
        old = re.search(rf"^Rehearsed [^\n]*`{name}`:\n\n(?:    [^\n]*\n)*", runbook, re.M)
        if old is None:
            raise SystemExit(f"the runbook has no line for the rehearsal of {name}")
        block = "".join(f"    {line}\n" for line in lines)
        fresh = f"Rehearsed {datetime.now(UTC):%Y-%m-%d}, `{name}`:\n\n{block}"
        runbook = runbook[: old.start()] + fresh + runbook[old.end() :]
    return runbook


if __name__ == "__main__":
    main()

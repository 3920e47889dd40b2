"""The steps of one rehearsal: a fault is made, its alert fires, the runbook's steps mend it, and the alert ends."""

import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from deploy.monitoring.broken_stack import Alert, NotInTime, Prometheus, Servers, Stack, until

_PATIENCE_SECONDS = 300


class Rehearsal:
    """One fault, told line by line with the time of each step."""

    def __init__(self, stack: Stack, servers: Servers, prometheus: Prometheus, disk: Path | None) -> None:
        self.stack = stack
        self.servers = servers
        self.prometheus = prometheus
        self.disk = disk
        """The small disk; None if there is none."""
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
        """Waits until the last alert no longer fires."""
        until(lambda: not self._is_firing(), f"{self._alert.name} ends", _PATIENCE_SECONDS)
        self.say("ends", f"{self._alert.name}, {time.monotonic() - self._began:.0f} s later")

    def proof(self, text: str) -> None:
        self.say("proof", text)

    def wait_for_calm(self) -> None:
        """Waits until every process is scraped, and no alert of an earlier fault fires or is about to."""
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

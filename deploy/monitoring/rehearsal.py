"""Rehearses the runbook: each fault is made, its alert fires in a real Prometheus, the runbook's steps mend it, and the
alert ends. The output stands in the runbook.

    deploy/monitoring/rehearse [--write] [FAULT ...]
"""

import argparse
import re
import shutil
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from deploy.monitoring.broken_stack import FASTER, NotInTime, Prometheus, Servers, Stack, ports_of_processes, small_disk
from deploy.monitoring.faults import FAULTS, FIRST_KEY, RESTORE, restore
from deploy.monitoring.rehearsed_fault import Fault, Rehearsal

RUNBOOK = Path(__file__).parents[1] / "runbook.md"
_DISK_MEGABYTES = 1200


def main() -> None:
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

"""Measures two checkouts in turns: the processor time that a request costs, and the rate.

    python -m tests.benchmarks.turns OTHER_CHECKOUT [ROUNDS [SECONDS]]

The processes of both work on one PostgreSQL, which this checkout has migrated, each with its own Redis database. So a
round of the one and the round of the other beside it see the same machine and the same tables. The ratio of such a pair
says more than its figures; the processor time of a request is steadier than the rate when other programs are at work.
"""

import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from deploy.cli.output import screen
from domain.accounts.keys import prefix_of
from domain.ids import shown_id
from ingress.http.serving import free_port
from tests.benchmarks.harness import HOST, Bench, Stack, exact_cpu_seconds, listens, new_progress
from tests.benchmarks.load import Address, drive, send
from tests.benchmarks.push import pushes
from tests.service import eventually

OTHER, OURS = "other", "ours"


class Round(NamedTuple):
    rate: float
    microseconds: dict[str, float]
    """Processor time of a request, by process."""

    @property
    def sum(self) -> float:
        return sum(self.microseconds.values())


class Side:
    """An ingress process and a worker of one checkout."""

    def __init__(self, life: ExitStack, stack: Stack, checkout: Path, redis_number: int) -> None:
        self.address: Address = HOST, free_port(HOST, 0)
        environment = {
            **os.environ,
            "FUELROUTE_DATABASE_URL": stack.settings.require_database_url(),
            "FUELROUTE_REDIS_URL": stack.settings.require_redis_url().replace("db=0", f"db={redis_number}"),
            "FUELROUTE_DATA": str(stack.settings.data),
            "FUELROUTE_HOST": HOST,
            "FUELROUTE_PORT": str(self.address[1]),
        }
        self.pids: dict[str, int] = {}
        for name, arguments in (("ingress", ["ingress"]), ("worker", ["workers", "--queues", "imports"])):
            command = [str(checkout / ".venv/bin/fuelroute"), *arguments]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=checkout)
            life.callback(process.wait)
            life.callback(process.terminate)
            self.pids[name] = process.pid
        eventually(lambda: listens(self.address), bool, 300)


class Turns:
    """Rounds of both sides, by kind of request."""

    def __init__(self, stack: Stack, sides: Mapping[str, Side], seconds: float) -> None:
        self._stack, self._sides, self._seconds = stack, sides, seconds

    def measure(
        self, side: str, requests: Iterator[bytes], expect: int, connections: int, *, seconds: float | None = None
    ) -> Round:
        """One round, of `seconds` or as long as all rounds."""
        one, seconds = self._sides[side], seconds or self._seconds
        before = self._seconds_of(one)
        load = drive(send([one.address], requests, expect=expect, seconds=seconds, connections=connections, warm_up=0))
        time.sleep(1.2)  # the request log is written a second later
        answers = sum(load.answers.values())
        after = self._seconds_of(one)
        return Round(load.rate, {name: (after[name] - before[name]) / answers * 1e6 for name in after})

    def _seconds_of(self, side: Side) -> dict[str, float]:
        pids = {name: [pid] for name, pid in side.pids.items()} | {"postgres": self._stack.pids_of("postgres")}
        return {name: sum(map(exact_cpu_seconds, of_name)) for name, of_name in pids.items()}


def gets(stack: Stack, pushed: Iterator[bytes]) -> Iterator[bytes]:
    """Polls of routes that were pushed, each with a key of its company, and each key in turn: its rate is limited."""
    by_prefix = {prefix_of(key.decode()): key for key in map(key_of, itertools.islice(pushed, 4000))}
    keys: dict[UUID, list[bytes]] = {}
    for row in stack.query("SELECT prefix, company_id FROM api_keys WHERE prefix = ANY(%s)", [*by_prefix]):
        keys.setdefault(row.company_id, []).append(by_prefix[row.prefix])
    request = b"GET /v1/routes/%b HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %b\r\n\r\n"
    rows = stack.query("SELECT id, company_id FROM routes WHERE company_id = ANY(%s) ORDER BY id LIMIT 2000", [*keys])
    of_company = {company: itertools.cycle(of_one) for company, of_one in keys.items()}
    polled = itertools.cycle([(shown_id("rte", row.id).encode(), of_company[row.company_id]) for row in rows])
    return (request % (path, next(of_one)) for path, of_one in polled)


def main(other: Path, rounds: int = 10, seconds: float = 3) -> None:
    results: dict[tuple[str, str], list[Round]] = {}
    with ExitStack() as life:
        progress = life.enter_context(new_progress(screen))
        stack = life.enter_context(Bench(progress).stack("turns"))
        ours = Path(__file__).parents[2]
        sides = {OTHER: Side(life, stack, other, 1), OURS: Side(life, stack, ours, 2)}
        turns = Turns(stack, sides, seconds)
        pushed = pushes(stack)
        for side in sides:
            turns.measure(side, pushed, 201, 32)
        polled = gets(stack, pushed)
        for number in range(rounds):
            for side in (OTHER, OURS) if number % 2 else (OURS, OTHER):
                for kind, requests, expect, connections in (
                    ("push, 64 connections", pushed, 201, 64),
                    ("push, 1 connection", pushed, 201, 1),
                    ("GET, 64 connections", polled, 200, 64),
                    ("GET, 1 connection", polled, 200, 1),
                ):
                    one = turns.measure(side, requests, expect, connections)
                    results.setdefault((kind, side), []).append(one)
                    print(number, kind, side, f"{one.rate:.0f}/s {one.sum:.0f} us {one.microseconds}", flush=True)
    report(results, OTHER, OURS)


def report(results: Mapping[tuple[str, str], Sequence[Round]], first: str, second: str) -> None:
    """Prints for each kind of request what the second side costs beside the first: medians and quartiles of pairs."""
    for kind in dict.fromkeys(kind for kind, _ in results):
        pairs = list(zip(results[kind, second], results[kind, first], strict=True))
        cost = sorted(after.sum / before.sum for after, before in pairs)
        rate = sorted(after.rate / before.rate for after, before in pairs)
        print(
            f"{kind}: processor time of a request x {statistics.median(cost):.3f}"
            f" ({cost[len(cost) // 4]:.3f} to {cost[-1 - len(cost) // 4]:.3f}),"
            f" rate x {statistics.median(rate):.3f} ({rate[len(rate) // 4]:.3f} to {rate[-1 - len(rate) // 4]:.3f})"
        )
        for side in (first, second):
            of_side = results[kind, side]
            parts = {
                name: round(statistics.median(one.microseconds[name] for one in of_side))
                for name in of_side[0].microseconds
            }
            print(f"  {side}: {statistics.median(one.rate for one in of_side):.0f}/s, microseconds {parts}")


def key_of(request: bytes) -> bytes:
    """The key of a request, which holds it as its bearer."""
    return request.split(b"Bearer ", 1)[1].split(b"\r\n", 1)[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:4]))

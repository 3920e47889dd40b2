"""Compares how long answers take for ids of another company and for ids that never existed.

    python -m tests.benchmarks.foreign_times [REQUESTS]

The requests alternate on one connection, in pairs whose order is drawn. For each operation the program prints both
medians and the Mann-Whitney test: the probability that an answer for a foreign id takes longer than one for an unknown
id (0.5: times tell nothing), and z. Beyond 4 in absolute value, z says that times tell one from the other.
"""

import http.client
import math
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np

from deploy.cli.output import screen
from domain.ids import shown_id
from domain.lifecycle import RouteStatus
from tests.benchmarks.harness import Bench, new_progress
from tests.benchmarks.loader import Lot, load_fleet, load_keys, load_routes

ROUTES = 20_000

OPERATIONS: dict[str, Callable[[str, str], tuple[str, str]]] = {
    "getRoute": lambda route_id, _: ("GET", f"/v1/routes/{route_id}"),
    "cancelRoute": lambda route_id, _: ("DELETE", f"/v1/routes/{route_id}"),
    "listRoutes by externalId": lambda _, load: ("GET", f"/v1/routes?externalId={load}"),
}


def mann_whitney(first: list[float], second: list[float]) -> tuple[float, float]:
    """The probability that one of the first is larger than one of the second, and z. Ties are so rare among times that
    the correction for them is left out."""
    values = np.array(first + second)
    ranks = np.empty(len(values))
    ranks[values.argsort()] = np.arange(1, len(values) + 1)
    count, others = len(first), len(second)
    larger = ranks[:count].sum() - count * (count + 1) / 2
    z = (larger - count * others / 2) / math.sqrt(count * others * (count + others + 1) / 12)
    return larger / (count * others), z


def _unknown_like(id: UUID, draw: random.Random) -> UUID:
    """An id that nobody has, of the same moment: a later one would be looked for at the end of an index, whose page is
    in the processor's cache."""
    return UUID(int=id.int >> 62 << 62 | draw.getrandbits(62))


def main(requests: int = 4000) -> None:
    draw = random.Random(22)
    with Bench(new_progress(screen)).stack("foreign ids") as stack:
        now = datetime.now(UTC)
        with stack.database.transaction() as connection:
            own, other = load_fleet(connection, 100, "Own"), load_fleet(connection, 100, "Other")
            keys = [key.decode() for key in load_keys(connection, own)]
        span = (now + timedelta(days=1), now + timedelta(days=6))
        load_routes(stack.database, [Lot(fleet, ROUTES, RouteStatus.DRAFT, span) for fleet in (own, other)])
        rows = stack.query("SELECT id, external_id FROM routes WHERE company_id = %s", other.company_id)
        foreign = [(shown_id("rte", row.id), row.external_id) for row in draw.sample(rows, requests // 2)]
        near = draw.sample(rows, requests // 2)
        unknown = [(shown_id("rte", one := _unknown_like(row.id, draw)), f"LOADED-{one.hex[-16:]}") for row in near]
        client = http.client.HTTPConnection(*stack.start_ingress())
        for name, request in OPERATIONS.items():
            times: dict[bool, list[float]] = {True: [], False: []}
            for number, pair in enumerate(zip(foreign, unknown, strict=True)):
                for is_foreign in draw.sample((True, False), 2):
                    method, path = request(*pair[0 if is_foreign else 1])
                    started = time.perf_counter()
                    client.request(method, path, headers={"Authorization": f"Bearer {keys[number % len(keys)]}"})
                    answer = client.getresponse()
                    assert answer.status == (200 if "?" in path else 404), answer.read()
                    answer.read()
                    times[is_foreign].append((time.perf_counter() - started) * 1000)
            larger, z = mann_whitney(times[True], times[False])
            medians = " and ".join(f"{np.median(times[one]):.3f} ms" for one in (True, False))
            print(
                f"{name}: medians {medians} for foreign and unknown ids; P(foreign > unknown) {larger:.3f}, z {z:+.2f}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))

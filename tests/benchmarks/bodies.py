"""The cost of a push beside HTTP and the database: reading its body, writing it for the statement that stores it, and
writing the answer. `python -m tests.benchmarks.bodies` takes some seconds.

The first line of each part is the reference: msgspec reads or writes the same JSON without knowing any shape.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from domain.contract.checking import Invalid, read_body
from domain.contract.shapes import RouteInput
from domain.database.connections import Tenant
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import Environment, PendingReason, RouteStatus
from domain.routes.intake.imports import ImportOutcome
from domain.routes.intake.pushes import Push, Pushed
from domain.routes.reading.answers import fresh_route
from tests.benchmarks.loader import FIVE_STOPS
from tests.benchmarks.statements import compare
from tests.factories import route_body

REPEATS = 3_000
BATCH = 64


def main() -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    window = {"start": "2026-12-02T08:00:00-05:00", "end": "2026-12-02T12:00:00-05:00"}
    plain = _body(start, FIVE_STOPS)
    windows = _body(start, [{**stop, "arrivalWindow": window} for stop in FIVE_STOPS])
    works: dict[str, Callable[[], Any]]
    for name, body in ("5 stops", plain), ("5 stops with windows", windows):
        works = {
            f"{name}, untyped": partial(msgspec.json.decode, body),
            f"{name}": _reading(body),
            f"{name}, a name like a time": _reading(body.replace(b"Driver 00001", b"12:00:00-0600")),
            f"{name}, one fault": _reading(body.replace(b"41.462", b"91.462")),
        }
        compare(works, repeats=REPEATS)
    push = Push(Tenant(new_id(), Environment.LIVE), read_body(plain, RouteInput))
    record = {"id": new_id(), "ordinal": 1, "company_id": push.tenant.company_id, "environment": "live"}
    records = [{**record, "body": push.route}] * BATCH
    documents = json.loads(write(records))
    works = {
        f"{BATCH} bodies to store, untyped": lambda: write(documents),
        f"{BATCH} bodies to store": lambda: write(records),
    }
    compare(works, repeats=REPEATS // BATCH)
    pushed = Pushed(new_id(), "create", start)
    draft = ImportOutcome(RouteStatus.DRAFT, None, None, new_id(), "00001", new_id(), "Driver 00001")
    held = ImportOutcome(
        RouteStatus.PENDING_MAPPING, PendingReason.VEHICLE_UNMAPPED, "No vehicle.", None, None, None, None
    )
    answer = json.loads(write(fresh_route(push, pushed, draft)))
    works = {
        "answer, untyped": lambda: write(answer),
        "answer to a draft": lambda: write(fresh_route(push, pushed, draft)),
        "answer to a held route": lambda: write(fresh_route(push, pushed, held)),
    }
    compare(works, repeats=REPEATS)


def _body(start: datetime, stops: list[dict[str, Any]]) -> bytes:
    vehicle, driver = {"unitNumber": "00001"}, {"name": "Driver 00001"}
    return write(route_body(start, reference="PO-1", vehicle=vehicle, driver=driver, stops=stops))


def _reading(body: bytes) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return read_body(body, RouteInput)
        except Invalid as invalid:
            return invalid

    return read


if __name__ == "__main__":
    main()

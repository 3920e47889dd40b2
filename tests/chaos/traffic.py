"""The steady traffic of a round: pushes, pushes again, cancels, mappings, prices and reads, drawn from a seed.

The drawing depends on the seed alone. Only what a load's earlier answers allow is done: a cancel needs a known route.
"""

import csv
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

from domain.ids import shown_id
from tests.chaos.clients import Clients, is_to_repeat
from tests.chaos.model import Account, Input, Kind, Load, Model, Possible
from tests.factories import JOLIET, NEWARK, PERRYSBURG, STATIONS

_STATES = ("IL", "IN", "OH", "PA", "NJ")
PLACES = (JOLIET, PERRYSBURG, NEWARK)
WAITING_TRUCKS = [f"W{number}" for number in range(1, 31)]
"""Trucks that never send a position: their routes wait as drafts."""

Step = Callable[[], None]

_SHAPES = {
    "new": 46,
    "new, same again": 8,
    "new, changed": 8,
    "new, canceled": 7,
    "new, canceled, new again": 4,
    "twins": 4,
    "rivals": 3,
    "known, same again": 4,
    "known, changed": 5,
    "known, canceled": 3,
    "unmapped, then mapped": 3,
    "far, then near": 3,
    "same reference": 10,
    "reads": 4,
    "console": 2,
    "prices": 1,
}
"""The shapes of a lane of the traffic, and how often each is drawn."""


class _Made(NamedTuple):
    """A load that a round made."""

    account: Account
    external_id: str
    kind: Kind
    reference: str | None


@dataclass(frozen=True, slots=True)
class Lane:
    """Requests of one load, one after the other, from a moment of the round on."""

    at_seconds: float
    run: Step


class Traffic:
    """Draws the lanes of each round, and does what they say."""

    def __init__(
        self,
        seed: str,
        model: Model,
        clients: Clients,
        accounts: list[Account],
        trucks: dict[tuple[UUID, str], UUID],
        *,
        now: datetime,
    ) -> None:
        """Starts of routes are drawn from `now` on."""
        self._seed, self._model, self._clients, self._accounts, self._trucks = seed, model, clients, accounts, trucks
        self._base = now
        self._complaints: list[str] = []
        self._rounds: list[list[_Made]] = []
        """The loads that each round made, for later rounds to take up."""

    def complain(self, text: str) -> None:
        self._complaints.append(text)

    def complaints(self) -> list[str]:
        """Statements of answers that can never be true, since the last call."""
        found, self._complaints = self._complaints, []
        return found

    # --- Drawing -------------------------------------------------------------------------------------------------

    def draw(self, number: int, lanes: int, seconds: float) -> list[Lane]:
        """The lanes of a round, spread over its time."""
        random = Random(f"{self._seed}/traffic/{number}")
        made: list[_Made] = []
        drawn = []
        for lane in range(lanes):
            shape = random.choices([*_SHAPES], [*_SHAPES.values()])[0]
            # the same externalIds in every account: they must never meet
            name = f"L-{number}-{lane // len(self._accounts)}"
            run = self._lane(shape, self._accounts[lane % len(self._accounts)], name, random, made)
            drawn.append(Lane(random.random() * seconds, run))
        self._rounds.append(made)
        return sorted(drawn, key=lambda lane: lane.at_seconds)

    def _lane(self, shape: str, account: Account, name: str, random: Random, made: list[_Made]) -> Step:
        if shape == "reads":
            return partial(self._read, account, random.randint(1, 100))
        if shape == "console":
            return partial(self._look, account)
        if shape == "prices":
            return partial(self._import_prices, random.randint(300, 420))
        kind: Kind = "unmapped" if "unmapped" in shape else "far" if "far" in shape else "ready"
        # a load keeps its reference: one that took it up later would stand beside the newer load that has it
        reference = random.choice((None, f"PO-{name}"))
        if shape == "same reference" and self._rounds:
            reference = random.choice([reference, *(one.reference for one in self._rounds[-1])])
        if shape.startswith("known") and self._rounds and (earlier := random.choice(self._rounds)):
            account, name, kind, reference = random.choice(earlier)
        else:
            made.append(_Made(account, name, kind, reference))
        draw = _Draw(account, name, kind, reference, random.random() < 0.75, random.randrange(1 << 60))
        return self._steps(shape, draw)

    def _steps(self, shape: str, draw: "_Draw") -> Step:
        load = self._model.load
        first, second = draw.mark(1), draw.mark(2)

        def one(*steps: Callable[[Load], object]) -> Step:
            def run() -> None:
                found = load(draw.account, draw.external_id)
                with found.lock:
                    for step in steps:
                        step(found)

            return run

        def push(mark: str, kind: Kind | None = None) -> Callable[[Load], object]:
            return lambda found: self._push(found, mark, self._input(draw, mark, kind), patient=draw.patient)

        def cancel(found: Load) -> None:
            self.cancel(found, by_console=draw.number % 5 == 0)

        match shape:
            case "new" | "same reference" | "known, changed":
                return one(push(first))
            case "new, same again":
                return one(push(first), push(first))
            case "new, changed":
                return one(push(first), push(second))
            case "new, canceled":
                return one(push(first), cancel)
            case "new, canceled, new again":
                return one(push(first), cancel, push(second))
            case "known, same again":
                return one(self._push_again)
            case "known, canceled":
                return one(cancel)
            case "unmapped, then mapped":
                return one(push(first), lambda found: self._map(found, draw))
            case "far, then near":
                return one(push(first), push(second, "ready")) if draw.number % 3 else one(push(first))
            case "twins":
                return one(lambda found: self._race(found, draw, first, first))
            case "rivals":
                return one(lambda found: self._race(found, draw, first, second))
        raise ValueError(shape)

    def _input(self, draw: "_Draw", mark: str, kind: Kind | None) -> Input:
        """A body that tells in its stops whose it is."""
        random = Random(f"{self._seed}/{mark}")
        kind = kind or draw.kind
        days = random.uniform(20, 60) if kind == "far" else random.uniform(1, 6)
        unit = (
            f"X-{draw.account.environment}-{draw.external_id}" if kind == "unmapped" else random.choice(WAITING_TRUCKS)
        )
        first, last = random.sample(PLACES, 2)
        start = (self._base + timedelta(days=days)).replace(microsecond=0)
        return new_input(draw.account, draw.external_id, mark, kind, draw.reference, unit, start, first, last)

    # --- Doing ---------------------------------------------------------------------------------------------------

    def push(self, load: Load, mark: str, one: Input, *, patient: bool) -> int:
        """Pushes, and tells the model. Returns the last status."""
        with load.lock:
            return self._push(load, mark, one, patient=patient)

    def _push(self, load: Load, mark: str, one: Input, *, patient: bool) -> int:
        was_certain = len(load.possible) == 1 and not load.may_be_superseded
        was_open = all(possible.is_open for possible in load.possible)
        known = [*load.ids]
        for _ in range(60 if patient else 1):
            status, document = self._send(load, mark, one)
            if not is_to_repeat(status):
                break
            was_certain = was_certain and status == 429
            threading.Event().wait(1 if status == 429 else 0.3)
        if status in (200, 201, 202):
            if load.may_be_superseded:
                was_certain = False
            self._compare(load, mark, status, document, known, was_open if was_certain else None)
        elif status == 409 and one.kind != "journey":
            self.complain(f"{load.account.tag} {load.external_id}: a route that never started is refused with 409")
        elif not is_to_repeat(status) and status != 409:
            self.complain(f"{load.account.tag} {load.external_id}: a good push is answered {status} {document}")
        return status

    def _send(self, load: Load, mark: str, one: Input) -> tuple[int, Any]:
        self._model.will_push(load, mark, one)
        status, document = self._clients.ask(load.account, "POST", "/v1/routes", one.body)
        if status in (200, 201, 202):
            load.pushed(mark, document["id"])
        elif status != 429 and is_to_repeat(status):
            load.pushed(mark, None)
        return status, document

    def _compare(
        self, load: Load, mark: str, status: int, document: Any, known: list[str], was_open: bool | None
    ) -> None:
        """The answer to a push against what was known before. `was_open` None: not certain."""
        label = f"{load.account.tag} {load.external_id}"
        name = document["stops"][0]["name"]
        if document["externalId"] != load.external_id or load.account.tag not in name:
            self.complain(f"{label}: the answer is another's: {document}")
        if was_open is True and (status != 200 or document["id"] not in known):
            self.complain(f"{label}: an open load was pushed again, {status} {document['id']}, known {known}")
        if was_open is False and (status == 200 or document["id"] in known):
            self.complain(f"{label}: a load without an open route was pushed, {status} {document['id']}, known {known}")

    def _push_again(self, load: Load) -> None:
        """The body that was pushed last, if it is known."""
        certain = [*load.possible]
        if len(certain) == 1 and certain[0].mark is not None:
            mark = certain[0].mark
            self._push(load, mark, self._model.inputs[mark], patient=True)

    def _race(self, load: Load, draw: "_Draw", *marks: str) -> None:
        """Two pushes of one load at the same time: one route, whichever input wins."""
        answers: list[tuple[str, int, Any]] = []

        def send(mark: str) -> None:
            one = self._input(draw, mark, None)
            self._model.will_push(load, mark, one)
            answers.append((mark, *self._clients.ask_patiently(load.account, "POST", "/v1/routes", one.body)))

        threads = [threading.Thread(target=send, args=(mark,)) for mark in marks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        before = load.possible
        for mark, status, document in answers:
            load.pushed(mark, document["id"] if status in (200, 201, 202) else None)
            load.doubts += 1  # a patient caller may have had no answer before this one
        raced = {Possible(mark, True) for mark in marks}
        load.possible = raced if any(status in (200, 201, 202) for _, status, _ in answers) else before | raced
        ids = {document["id"] for _, status, document in answers if status in (200, 201, 202)}
        if len(ids) > 1 and not load.may_be_superseded:
            self.complain(f"{load.account.tag} {load.external_id}: two pushes at once made routes {sorted(ids)}")

    def cancel(self, load: Load, *, by_console: bool) -> None:
        route_id = load.route_id
        if route_id is None:
            return
        if by_console:
            path = f"/routes/{route_id}/cancel"
            status = self._clients.submit(load.account.company_id, path, reason="the customer called it off")
        else:
            status, _ = self._clients.ask(load.account, "DELETE", f"/v1/routes/{route_id}")
        if status in (204, 303):
            load.cancel_answered(route_id, True)
        elif is_to_repeat(status) and status != 429:
            load.cancel_answered(route_id, None)
        elif status != 409 and status != 429:
            self.complain(f"{load.account.tag} {load.external_id}: canceling {route_id} is answered {status}")

    def _map(self, load: Load, draw: "_Draw") -> None:
        truck = shown_id("veh", self._trucks[load.account.company_id, WAITING_TRUCKS[draw.number % 30]])
        value = quote(f"X-{load.account.environment}-{load.external_id}", safe="")
        fields = {"kind": "unit_number", "value": value, "target_id": truck}
        status = self._clients.submit(load.account.company_id, "/matching/vehicles/map", part=True, **fields)
        load.is_mapped = True if status < 400 and status else None

    def _read(self, account: Account, limit: int) -> None:
        status, document = self._clients.ask(account, "GET", f"/v1/routes?limit={limit}")
        if status == 200:
            self._require_own(account, document["data"])
        strangers = [load.ids for load in [*self._model.loads.values()] if load.account is not account and load.ids]
        if strangers:
            path = f"/v1/routes/{strangers[limit % len(strangers)][0]}"
            status, document = self._clients.ask(account, "GET", path)
            if status != 404 and not is_to_repeat(status):
                self.complain(f"{account.tag} reads {path} of another: {status} {document}")

    def _require_own(self, account: Account, routes: Iterable[Any]) -> None:
        for route in routes:
            names = [stop["name"] for stop in route["stops"] if stop["type"] != "fuel_stop"]
            if any(account.tag not in name for name in names):
                self.complain(f"{account.tag} reads a route of another: {route['id']} {names}")

    def _look(self, account: Account) -> None:
        page = self._clients.look(account.company_id, "/routes")
        for other in self._accounts:
            if other.name != account.name and other.tag in page:
                self.complain(f"the console of {account.name} shows a route of {other.name}")

    def _import_prices(self, cents: int) -> None:
        """New prices of the truck stops on the trucks' roads: plans of trucks at their first stop are reviewed."""
        with STATIONS.open() as file:
            rows = [row for row in csv.DictReader(file) if row["state"] in _STATES]
        lines = ["station_id,name,latitude,longitude,retail_price"]
        for number, row in enumerate(rows):
            price = (cents + number * 37 % 100) / 100
            lines.append(f"{row['station_id']},{row['name']},{row['latitude']},{row['longitude']},{price}")
        self._clients.upload("stations", "\n".join(lines))


@dataclass(frozen=True, slots=True)
class _Draw:
    """The draw for one lane."""

    account: Account
    external_id: str
    kind: Kind
    reference: str | None
    patient: bool
    number: int

    def mark(self, number: int) -> str:
        return f"m{self.number:x}-{number}"


def new_input(
    account: Account,
    external_id: str,
    mark: str,
    kind: Kind,
    reference: str | None,
    unit: str,
    start: datetime,
    first: dict[str, Any],
    last: dict[str, Any],
) -> Input:
    stops = [
        {**first, "name": f"{first['name']} {account.tag} {mark}"},
        {**last, "name": f"{last['name']} {account.tag} {mark}"},
    ]
    body = {
        "externalId": external_id,
        "reference": reference,
        "vehicle": {"unitNumber": unit},
        "driver": {"name": f"Driver {unit}" if kind != "unmapped" else "Driver W1"},
        "scheduledStart": start.isoformat(),
        "stops": stops,
    }
    return Input(kind, body, start)

"""Trucks that drive under chaos: a route is pushed, its truck reaches the first stop and later the last one.

Positions come late, twice and out of order; the feed gets them again and again until it answers. A truck goes on in a
later round, so that checks see its route `draft`, `active` and `completed`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Literal

from tests.chaos.clients import Clients, is_to_repeat
from tests.chaos.model import Journey, Model
from tests.chaos.traffic import PLACES, Lane, Traffic, new_input

Manner = Literal["in order", "reversed", "shuffled", "doubled", "late"]
_FIX_SECONDS = 10
_FIXES = 4
_FURTHEST_AHEAD = timedelta(minutes=3)
"""A truck whose fixes are further ahead of the clock waits: the feed drops those of five minutes ahead."""


@dataclass(frozen=True, slots=True)
class _Move:
    """The draw for one truck in one round."""

    name: str
    """The `externalId` of the load, should the truck begin one."""
    manner: Manner
    changes: bool
    """The route is pushed with another reference before its truck arrives."""
    hurries: bool
    """The truck reaches the last stop in the same round."""
    by_dispatcher: bool
    """A dispatcher enters the arrival at the first stop; the truck itself sends nothing."""
    tries_again: bool
    """The TMS pushes the active route once more; a dispatcher asks for another plan."""
    gives_up: bool
    """A route whose message cannot be delivered is canceled."""
    places: tuple[dict[str, Any], dict[str, Any]]


class Journeys:
    """Moves the trucks of the model from round to round."""

    def __init__(self, seed: str, model: Model, clients: Clients, traffic: Traffic) -> None:
        self._seed, self._model, self._clients, self._traffic = seed, model, clients, traffic

    def draw(self, number: int, moves: int, seconds: float) -> list[Lane]:
        random = Random(f"{self._seed}/journeys/{number}")
        chosen = random.sample(self._model.journeys, min(moves, len(self._model.journeys)))
        return [Lane(random.random() * seconds, self._step(journey, number, random)) for journey in chosen]

    def _step(self, journey: Journey, number: int, random: Random) -> Callable[[], None]:
        first, last = random.sample(PLACES, 2)
        move = _Move(
            name=f"J-{number}-{journey.truck}",
            manner=random.choice(("in order", "reversed", "shuffled", "doubled", "late")),
            changes=random.random() < 0.15,
            hurries=random.random() < 0.1,
            by_dispatcher=random.random() < 0.1,
            tries_again=random.random() < 0.2,
            gives_up=random.random() < 0.1,
            places=(first, last),
        )
        order = Random(random.randrange(1 << 30))
        return lambda: self._move(journey, move, order)

    def _move(self, journey: Journey, move: _Move, random: Random) -> None:
        if journey.fixes:
            self._send(journey)
        elif journey.leg in ("none", "pushed"):
            self._begin(journey, move, random)
        elif journey.leg == "at first" and journey.status == "active":
            self._go_on(journey, move, random)
        elif journey.leg == "at first" and journey.status == "planned" and journey.load is not None and move.gives_up:
            self._model.load(journey.account, journey.load.external_id)
            with journey.load.lock:
                self._traffic.cancel(journey.load, by_console=False)
                if not any(one.is_open for one in journey.load.possible):
                    journey.leg = "none"

    def _begin(self, journey: Journey, move: _Move, random: Random) -> None:
        if journey.clock and journey.clock > datetime.now(UTC) + _FURTHEST_AHEAD:
            return
        if journey.leg == "none":
            journey.load = self._model.load(journey.account, move.name)
            journey.stops, journey.status = move.places, ""
            journey.leg = "pushed"
        assert journey.load is not None
        self._model.load(journey.account, journey.load.external_id)
        if not self._push(journey, f"{move.name}-a", None):
            return
        if move.changes and not self._push(journey, f"{move.name}-b", f"PO-{move.name}"):
            return
        if move.by_dispatcher:
            self._enter_arrival(journey)
            return
        self._drive(journey, 0, move.manner, random)
        if self._send(journey) and move.hurries:
            self._drive(journey, 1, move.manner, random)
            self._send(journey)

    def _push(self, journey: Journey, mark: str, reference: str | None) -> bool:
        load = journey.load
        assert load is not None
        mark = f"{mark}-{journey.account.tag}"
        start = datetime.now(UTC).replace(microsecond=0)
        known = self._model.inputs.get(mark)
        one = known or new_input(
            load.account, load.external_id, mark, "journey", reference, journey.truck, start, *journey.stops
        )
        return self._traffic.push(load, mark, one, patient=True) in (200, 201, 202)

    def _go_on(self, journey: Journey, move: _Move, random: Random) -> None:
        load = journey.load
        assert load is not None
        self._model.load(journey.account, load.external_id)
        if move.tries_again and load.route_id is not None:
            mark = next(iter(load.possible)).mark
            assert mark is not None
            one = self._model.inputs[mark]
            status, _ = self._clients.ask(load.account, "POST", "/v1/routes", one.body)
            if status != 409 and not is_to_repeat(status):
                self._traffic.complain(f"{load.account.tag} {load.external_id}: active, and pushed again: {status}")
            self._clients.submit(load.account.company_id, f"/routes/{load.route_id}/plan", reason="is it still right?")
        self._drive(journey, 1, move.manner, random)
        self._send(journey)

    def _enter_arrival(self, journey: Journey) -> None:
        assert journey.load is not None
        at = datetime.now(UTC)
        journey.clock = max(at, journey.clock or at)  # fixes from before the arrival say nothing of the stops behind it
        fields = {"what": "arrival 0", "at": at.isoformat(), "reason": "he says he is there"}
        status = self._clients.submit(
            journey.account.company_id, f"/routes/{journey.load.route_id}/stop-event", **fields
        )
        if status == 303:
            journey.leg = "at first"
        elif is_to_repeat(status):
            journey.is_unsure = True

    def _drive(self, journey: Journey, stop: int, manner: Manner, random: Random) -> None:
        """The positions of a truck that stands at a stop."""
        place = journey.stops[stop]
        now = datetime.now(UTC)
        began = now - timedelta(seconds=_FIX_SECONDS * (_FIXES - 1))
        if journey.clock:
            began = max(began, journey.clock + timedelta(seconds=_FIX_SECONDS))
        fixes = [
            {
                "unitNumber": journey.truck,
                "latitude": place["latitude"],
                "longitude": place["longitude"],
                "recordedAt": (began + timedelta(seconds=_FIX_SECONDS * number)).isoformat(),
                "speedMph": 0,
                "fuelPercent": 60,
            }
            for number in range(_FIXES)
        ]
        if manner == "late" and stop and journey.clock:  # one of the stop before comes only now
            stood = {**fixes[0], "recordedAt": (journey.clock + timedelta(seconds=0.5)).isoformat()}
            fixes.append({**stood, **{name: journey.stops[0][name] for name in ("latitude", "longitude")}})
        journey.clock = began + timedelta(seconds=_FIX_SECONDS * (_FIXES - 1))
        if manner == "reversed":
            fixes.reverse()
        elif manner == "shuffled":
            random.shuffle(fixes)
        elif manner == "doubled":
            fixes += fixes
        elif manner == "late":
            fixes = fixes[1:] + fixes[:1]  # the last one is of the place where the truck is now
        journey.fixes = fixes

    def _send(self, journey: Journey) -> bool:
        """The feed gets all positions, one half after the other, from the first again until it has answered both."""
        middle = len(journey.fixes) // 2
        for half in (journey.fixes[:middle], journey.fixes[middle:]):
            status, document = self._clients.ask_patiently(
                journey.account, "POST", "/telematics/positions", {"positions": half}
            )
            if status != 202:
                return False
            if document["rejected"]:
                self._traffic.complain(f"{journey.account.tag} {journey.truck}: positions rejected: {document}")
        at_first = journey.fixes[0]["latitude"] == journey.stops[0]["latitude"]
        journey.leg = "at first" if at_first else "at last"
        journey.place = journey.stops[0 if at_first else 1]["name"]
        journey.fixes = []
        if journey.load is not None:
            self._model.load(journey.account, journey.load.external_id)
        return True

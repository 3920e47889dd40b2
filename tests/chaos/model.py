"""A plain model of what may be true of each load that was pushed. It is told of every request and of every answer.

An answer makes the model certain. A request without one leaves both possible: it was done, or it was not.
"""

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from domain.lifecycle import Environment

Kind = Literal["ready", "unmapped", "far", "journey"]
"""A load waits for nothing but its truck (ready), a mapping, its import window (far), or its truck drives."""


class Possible(NamedTuple):
    """A state that a load may be in: the input that was pushed last, and whether its route is open or canceled."""

    mark: str | None
    """The mark of the last push; None if no push was stored."""
    is_open: bool


NEVER = Possible(None, False)


@dataclass(frozen=True, slots=True)
class Account:
    """One company in one environment, with its keys."""

    name: str
    company_id: UUID
    environment: Environment
    keys: tuple[str, ...]
    supersedes: bool
    has_gateway: bool

    @property
    def tag(self) -> str:
        """The words in each stop of its routes, by which every answer shows whose they are."""
        return f"{self.name}/{self.environment}"


@dataclass(slots=True)
class Input:
    """A body that was pushed, under the mark in the name of its first stop."""

    kind: Kind
    body: dict[str, Any]
    start: datetime


@dataclass
class Load:
    """One `externalId` of an account, and everything that may be true of it."""

    account: Account
    external_id: str
    possible: set[Possible] = field(default_factory=lambda: {NEVER})
    ids: list[str] = field(default_factory=list)
    """The routes that are known, the newest last."""
    canceled: set[str] = field(default_factory=set)
    """Routes that ended for good when their cancel was answered, or when a newer route took their place."""
    doubts: int = 0
    """Pushes without an answer since the last check: each may have made a route."""
    late: set[str] = field(default_factory=set)
    """Marks of pushes without an answer that a frozen server may still store after later ones."""
    may_be_superseded: bool = False
    is_mapped: bool | None = False
    """True if its unit is mapped; None if the mapping had no answer."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """The load's requests follow one another, unless they are meant to race."""

    @property
    def route_id(self) -> str | None:
        """The newest route that is known and may be open."""
        return self.ids[-1] if self.ids and self.ids[-1] not in self.canceled else None

    def pushed(self, mark: str, route_id: str | None) -> None:
        """A push was answered 2xx with that route, or had no answer: None."""
        if route_id is None:
            self.doubts += 1
            self.late.add(mark)
            self.possible.add(Possible(mark, True))
            return
        if route_id not in self.ids:
            self.canceled.update(self.ids)
            self.ids.append(route_id)
        self.possible = {Possible(mark, True)}

    def cancel_answered(self, route_id: str, is_canceled: bool | None) -> None:
        """A cancel was answered 204, or refused, or had no answer: None."""
        if is_canceled:
            self.possible = {Possible(one.mark, False) for one in self.possible}
            self.canceled.add(route_id)
        elif is_canceled is None:
            self.possible |= {Possible(one.mark, False) for one in self.possible if one.mark is not None}

    def settle(self, state: Possible, ids: list[str], canceled: set[str]) -> None:
        """A check has seen the state: from now on it is certain."""
        self.possible = {state}
        self.ids, self.canceled = ids, canceled
        self.doubts = 0
        self.late.clear()

    def allows(self, state: Possible, *, lately_frozen: bool) -> bool:
        if state in self.possible:
            return True
        if lately_frozen and state.is_open and state.mark in self.late:
            return True
        return self.may_be_superseded and not state.is_open and Possible(state.mark, True) in self.possible


@dataclass
class Journey:
    """The load that a truck drives now."""

    account: Account
    truck: str
    load: Load | None = None
    stops: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    fixes: list[dict[str, Any]] = field(default_factory=list)
    """Positions that the feed has not accepted yet: they are sent again until it does."""
    clock: datetime | None = None
    """The time of the truck's last position, or of the arrival that a dispatcher entered."""
    place: str = ""
    """The name of the place where the truck stands."""
    leg: Literal["none", "pushed", "at first", "at last"] = "none"
    """The stop that its accepted positions have reached."""
    is_unsure: bool = False
    """A dispatcher's entry had no answer: the route has started, or it has not."""
    status: str = ""
    """The status that the last check saw."""


class Answer(NamedTuple):
    """A request that ended: its answer's status, or 0 when there was none."""

    begun_at: float
    ended_at: float
    status: int
    request: str
    fault: str = ""
    """The error in place of an answer."""


class Model:
    """All loads, journeys and inputs, and what was asked."""

    def __init__(self) -> None:
        self.loads: dict[tuple[str, str], Load] = {}
        self.inputs: dict[str, Input] = {}
        self.by_reference: dict[tuple[str, str], list[Load]] = {}
        self.journeys: list[Journey] = []
        self.touched: set[tuple[str, str]] = set()
        """Loads that were asked about since the last check."""
        self.answers: list[Answer] = []
        self.statuses: dict[int, int] = {}
        self.pushes = 0
        self.lock = threading.Lock()

    def load(self, account: Account, external_id: str) -> Load:
        with self.lock:
            key = (account.tag, external_id)
            self.touched.add(key)
            return self.loads.setdefault(key, Load(account, external_id))

    def note(self, answer: Answer) -> None:
        with self.lock:
            self.answers.append(answer)
            self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1

    def will_push(self, load: Load, mark: str, one: Input) -> None:
        """Called before each push: from its moment on, older loads with the same reference may be superseded. So may
        this one, by a push that is on its way and is stored later."""
        reference = one.body.get("reference")
        with self.lock:
            self.pushes += 1
            self.inputs[mark] = one
            if load.account.supersedes and reference:
                others = self.by_reference.setdefault((load.account.tag, reference), [])
                for other in others:
                    if other is not load:
                        other.may_be_superseded = True
                        load.may_be_superseded = load.may_be_superseded or other.lock.locked() or bool(other.late)
                        self.touched.add((other.account.tag, other.external_id))
                if load not in others:
                    others.append(load)

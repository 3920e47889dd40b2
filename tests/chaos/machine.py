"""The random machine. In each round traffic runs, a fault strikes, the system gets quiet, and everything is checked.

A seed draws the same faults and the same traffic again. It cannot repeat the timing: which request a fault meets is
decided by the machine that it runs on.
"""

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

import psycopg

from tests.chaos.checks import Checks, ask_doctor
from tests.chaos.faults import FAULTS, LONG_LOCK_SECONDS, Excuse, Fault, Target
from tests.chaos.gateways import Post, running_post
from tests.chaos.journeys import Journeys
from tests.chaos.model import Answer
from tests.chaos.stack import NotReady, Stack, running_stack, wait_for
from tests.chaos.traffic import Lane, Traffic
from tests.chaos.world import World, new_world
from tests.run_folder import own_folder

QUIET_SECONDS = 240.0
"""Nothing may be stuck for longer than this after the end of a fault."""
GRACE_SECONDS = 2.0
"""Requests that begin so shortly after the end of a fault may still meet it."""
_HANDING_OVER_SECONDS = 1.0
"""A message may be handed over so long before its outcome is stored."""
_THREADS = 32
_MOVES = 10
"""Trucks that move on in a round."""
_MOST_VIOLATIONS = 20

QUICK = {
    "SWEEP_SECONDS": "1",
    "IMPORT_PASS_SECONDS": "5",
    "MESSAGE_TIMEOUT_SECONDS": "5",
    "CONNECTIONS_PER_ADDRESS": "0",
}
"""Settings with which lost work is found soon, so that many faults fit into an hour."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run."""

    seed: str
    faults: int
    pushes: int
    together: int = 1
    """Faults of one round, before the system may become quiet. They last at the same time where they hit different
    parts of the stack, else one after the other."""
    seconds: float | None = None
    """No round begins later."""
    longest_hold_seconds: float = LONG_LOCK_SECONDS
    """No fault lasts longer than this."""
    only: Sequence[str] = ()
    """The kinds of faults that are drawn; all unless named."""
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be, with all that is needed to look for it again."""

    fault_number: int
    fault: str
    what: str


@dataclass
class Outcome:
    """The work and the findings of a run."""

    faults: Counter[str] = field(default_factory=Counter)
    skipped: dict[str, str] = field(default_factory=dict)
    """Kinds that could not happen here, with the reason."""
    pushes: int = 0
    checks: int = 0
    """Loads that were compared with the model, some of them again and again."""
    rounds: int = 0
    routes: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    statuses: dict[int, int] = field(default_factory=dict)
    quiet_after: list[tuple[str, float]] = field(default_factory=list)
    """Each fault, and the seconds from the end of its round's faults until the system was quiet and right."""
    deaths: list[tuple[str, str]] = field(default_factory=list)
    """Processes that ended by themselves and were started again, with their last words. A scheduler that lost its lead
    does so."""
    waiting: int = 0
    """Messages whose next attempt was not due yet at the end."""
    violations: list[Violation] = field(default_factory=list)
    logs: str | None = None
    _reported: int = 0

    def new_violations(self) -> list[Violation]:
        """The violations since the last call."""
        found, self._reported = self.violations[self._reported :], len(self.violations)
        return found


Show = Callable[[int, Outcome, str], None]
"""Called with the number of faults so far, the outcome, and what happens now."""


def run(plan: Plan, show: Show = lambda *_: None) -> Outcome:
    """Runs the machine to its end. Raises NotReady when the stack does not start."""
    with ExitStack() as life:
        folder = life.enter_context(own_folder("chaos"))
        folder.chmod(0o711)  # PostgreSQL's own user passes through
        post = life.enter_context(running_post())
        show(0, Outcome(), "starts the stack")
        stack = life.enter_context(running_stack(folder, **plan.settings))
        machine = Machine(plan, stack, life.enter_context(new_world(stack, post)), post)
        try:
            machine.run(show)
        finally:
            machine.close()
            if machine.outcome.violations:
                machine.outcome.logs = tempfile.mkdtemp(prefix="fuelroute-chaos-logs-")
                shutil.copytree(folder / "logs", machine.outcome.logs, dirs_exist_ok=True)
                shutil.copytree(stack.disk / "logs", machine.outcome.logs, dirs_exist_ok=True)
        return machine.outcome


class Machine:
    """One run over a running stack."""

    def __init__(self, plan: Plan, stack: Stack, world: World, post: Post) -> None:
        self._plan, self._stack, self._post = plan, stack, post
        model, clients, accounts = world.model, world.clients, world.accounts
        self._model = model
        self._traffic = Traffic(plan.seed, model, clients, accounts, world.trucks, now=datetime.now(UTC))
        self._journeys = Journeys(plan.seed, model, clients, self._traffic)
        pass_seconds = float(plan.settings.get("IMPORT_PASS_SECONDS", stack.service_settings.import_pass_seconds))
        self._checks = Checks(stack.admin_url, model, clients, post, accounts, import_pass_seconds=pass_seconds)
        self._threads = ThreadPoolExecutor(_THREADS)
        self._is_closing = threading.Event()
        self._target = Target(stack, post, time.sleep)
        self._reported: set[str] = set()
        self.outcome = Outcome(deaths=stack.deaths)
        self._faults = []
        for fault in (fault for fault in FAULTS if not plan.only or fault.name in plan.only):
            reason = fault.missing(stack)
            if reason is None:
                self._faults.append(fault)
            else:
                self.outcome.skipped[fault.name] = reason

    def run(self, show: Show) -> None:
        began = time.monotonic()
        number = 0
        lanes = max(1, round(self._plan.pushes * self._plan.together / self._plan.faults / 1.5))
        while not self._is_over(number, time.monotonic() - began):
            drawn = [self._drawn(number + offset) for offset in range(self._plan.together)]
            show(number, self.outcome, ", ".join(fault.name for fault in drawn))
            try:
                self._round(number, drawn, lanes)
            except NotReady as error:  # nothing can be checked any more
                self._report(number, ", ".join(fault.name for fault in drawn), [f"the stack is not ready: {error}"])
                break
            number += len(drawn)
            show(number, self.outcome, "")
        else:
            show(number, self.outcome, "checks everything")
            self._check_everything(number)
        show(number, self.outcome, "")

    def close(self) -> None:
        """Ends the traffic, in the midst of a round too."""
        self._is_closing.set()
        self._threads.shutdown(cancel_futures=True)

    def _is_over(self, number: int, seconds: float) -> bool:
        is_done = number >= self._plan.faults and self._model.pushes >= self._plan.pushes
        is_late = self._plan.seconds is not None and seconds > self._plan.seconds
        return is_done or is_late or len(self.outcome.violations) >= _MOST_VIOLATIONS

    def _drawn(self, number: int) -> Fault:
        """Each kind once in a drawn order, then all again in another one."""
        turn, place = divmod(number, len(self._faults))
        return Random(f"{self._plan.seed}/turn/{turn}").sample(self._faults, len(self._faults))[place]

    def _round(self, number: int, faults: Sequence[Fault], lanes: int) -> None:
        """Traffic, the faults in the midst of it, and the checks."""
        self._model.touched.clear()
        self._model.answers.clear()
        random = Random(f"{self._plan.seed}/strike/{number}")
        holds = [self._hold_seconds(fault, random) for fault in faults]
        seconds = sum(holds) + 1.0 * len(faults)
        drawn = self._traffic.draw(number, lanes, seconds) + self._journeys.draw(number, _MOVES, seconds)
        traffic = self._let_run(sorted(drawn, key=lambda lane: lane.at_seconds))
        spans = self._strike_all([*zip(faults, holds, strict=True)], random)
        ended_at = time.monotonic()
        for lane in traffic.result():
            lane.result()
        complaints = self._become_quiet(ended_at, any(Excuse.LATE_PUSHES in span.excuses for span in spans))
        self.outcome.quiet_after += [(fault.name, time.monotonic() - ended_at) for fault in faults]
        complaints += self._traffic.complaints() + self._failures(spans)
        self._report(number, ", ".join(span.name for span in spans), complaints)
        self.outcome.rounds += 1
        self.outcome.pushes, self.outcome.checks = self._model.pushes, self._checks.made
        self.outcome.statuses = self._model.statuses

    def _strike_all(self, faults: Sequence[tuple[Fault, float]], random: Random) -> list["_Span"]:
        """The faults in groups, in the order of the draw: a group lasts at the same time."""
        groups: list[list[tuple[Fault, float]]] = []
        for fault, seconds in faults:
            if not groups or any(fault.part is other.part for other, _ in groups[-1]):
                groups.append([])
            groups[-1].append((fault, seconds))
        return [span for group in groups for span in self._strike_group(group, random)]

    def _strike_group(self, group: Sequence[tuple[Fault, float]], random: Random) -> list["_Span"]:
        """Lets faults begin, last and end. Whatever died of them is started again."""
        spans: list[_Span] = []
        with ExitStack() as life:
            for fault, seconds in sorted(group, key=lambda drawn: drawn[0].part):
                time.sleep(0.4)
                begun_at = time.monotonic()
                hit = life.enter_context(fault.strike(self._target, random))
                name = f"{fault.name} ({', '.join(filter(None, (hit.what, f'{seconds:.1f} s')))})"
                spans.append(_Span(name, hit.excuses, begun_at))
                self.outcome.faults[fault.name] += 1
            time.sleep(max(seconds for _, seconds in group))
        self._stack.heal()
        ended_at = time.monotonic()
        for span in spans:
            if Excuse.REPEATED_MESSAGES in span.excuses:
                self._post.doubt(span.begun_at - _HANDING_OVER_SECONDS, ended_at + GRACE_SECONDS)
        return [span._replace(ended_at=ended_at) for span in spans]

    def _hold_seconds(self, fault: Fault, random: Random) -> float:
        seconds = random.uniform(*fault.hold_seconds)
        if fault.may_last_long and random.random() < 0.15:
            seconds = LONG_LOCK_SECONDS
        return min(seconds, self._plan.longest_hold_seconds)

    def _let_run(self, lanes: Sequence[Lane]) -> "Future[list[Future[None]]]":
        """The lanes begin at their moments, in threads."""
        begun_at = time.monotonic()
        ended: Future[list[Future[None]]] = Future()

        def begin() -> None:
            begun = []
            for lane in lanes:
                if self._is_closing.wait(max(begun_at + lane.at_seconds - time.monotonic(), 0)):
                    return
                begun.append(self._threads.submit(lane.run))
            ended.set_result(begun)

        threading.Thread(target=begin, daemon=True).start()
        return ended

    # --- Checking ------------------------------------------------------------------------------------------------

    def _become_quiet(self, ended_at: float, lately_frozen: bool) -> list[str]:
        """Waits until nothing is to be complained about. Gives what is left after the longest time."""
        loads = [self._model.loads[key] for key in sorted(self._model.touched)]
        pause = 0.05
        while True:
            self._stack.heal()
            try:
                found = self._new(self._checks.look(loads, lately_frozen=lately_frozen))
                if not found:
                    found = self._new(self._checks.look_outside(loads, self._threads))
            except psycopg.Error as error:
                found = [f"the checks cannot read the tables: {error}"]
            if not found or time.monotonic() - ended_at > QUIET_SECONDS:
                break
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)
        self._checks.settle(loads)
        return found

    def _new(self, complaints: Sequence[str]) -> list[str]:
        return [complaint for complaint in complaints if complaint not in self._reported]

    def _failures(self, spans: Sequence["_Span"]) -> list[str]:
        """Answers of 500, and broken connections, that no fault excuses."""

        def is_excused(answer: Answer) -> bool:
            return any(
                (Excuse.ANSWERS_500 if answer.status else Excuse.BROKEN_CONNECTIONS) in span.excuses
                and answer.begun_at < span.ended_at + GRACE_SECONDS
                and answer.ended_at > span.begun_at
                for span in spans
            )

        bad = [answer for answer in self._model.answers if answer.status == 0 or answer.status >= 500]
        first = min((span.begun_at for span in spans), default=0.0)
        return [
            f"{answer.request} is answered {answer.status or f'not at all: {answer.fault}'},"
            f" {answer.begun_at - first:+.2f} s from the first fault's begin, after"
            f" {answer.ended_at - answer.begun_at:.2f} s, at"
            f" {datetime.now(UTC) - timedelta(seconds=time.monotonic() - answer.ended_at):%H:%M:%S}"
            for answer in bad
            if not is_excused(answer)
        ]

    def _report(self, number: int, fault: str, complaints: Sequence[str]) -> None:
        for complaint in complaints:
            if complaint not in self._reported:
                self._reported.add(complaint)
                self.outcome.violations.append(Violation(number, fault, complaint))

    def _check_everything(self, number: int) -> None:
        """Every load of the run once more, and the messages that still wait for their next attempt."""
        loads = [*self._model.loads.values()]
        with self._checks.connect() as connection:
            self.outcome.waiting = _count(connection, "SELECT count(*) FROM messages WHERE status = 'pending'")
            self.outcome.routes = _count(connection, "SELECT count(*) FROM routes")
            rows = connection.execute("SELECT status, count(*)::int FROM messages GROUP BY status").fetchall()
            self.outcome.messages = Counter(dict(rows))
        self._report(number, "the end", self._new(self._checks.look(loads, lately_frozen=False)))
        wait_for(lambda: not ask_doctor(self._stack.service_settings), QUIET_SECONDS)
        self._report(number, "the end", ask_doctor(self._stack.service_settings))
        sample = Random(f"{self._plan.seed}/sample").sample(loads, min(len(loads), 300))
        self._report(number, "the end", self._new(self._checks.look_outside(sample, self._threads)))
        self.outcome.checks = self._checks.made + len(loads) - len(sample)


class _Span(NamedTuple):
    """A fault that has ended: from when until when it lasted, and what it excuses."""

    name: str
    excuses: Set[Excuse]
    begun_at: float
    ended_at: float = 0.0


def _count(connection: psycopg.Connection, statement: str) -> int:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])

"""Pushes the routes of a file through the API, many at a time, below the rate limits of the keys.

Each route gets a line in a file of results as soon as it is answered, so a run that breaks off can be resumed. A run
may be repeated in any case: a push is idempotent by its `externalId`."""

import asyncio
import csv
import io
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import httpx
import msgspec

from deploy.clients.python.fuelroute_client import ApiError, AsyncFuelroute, FuelrouteError, Me
from domain import errors
from domain.files.csvfiles import append_rows
from domain.files.route_rows import FileRoute
from domain.files.text_rows import armed

RATE_SHARE = 0.95
"""The part of a key's rate limit that is used. The rest is for others who use the key, such as a TMS that polls."""
ANSWER_SECONDS = 1.0
"""Expected seconds of a push, by which the number at a time is computed."""
MOST_PUSHES_OF_A_KEY = 32
CALL_SECONDS = 180.0
"""Time for which a push is tried again while the service is away."""
_CONNECTIONS = httpx.Limits(max_connections=MOST_PUSHES_OF_A_KEY, max_keepalive_connections=MOST_PUSHES_OF_A_KEY)
_FIRST_SECONDS = 5.0
"""Time for which the first call is tried again: a person waits, and the address may be wrong."""

_UNITS = {"s": 1, "m": 60, "h": 3600}
_ROUTES_FAULT = frozenset((400, 404, 409, 413, 415))
"""Statuses about the route itself. Any other error is about the key or the service, and ends the run."""


class CannotPush(errors.FuelrouteError):
    """The run cannot begin or go on; the text says what to do."""


class Result(NamedTuple):
    """A line of the file of results."""

    line: int
    external_id: str
    status: int | None
    """The status of the answer; None if the route was refused before it was sent."""
    outcome: str
    """`created`, `updated`, `held`, or `refused`."""
    route_id: str
    error: str


ACCEPTED = frozenset(("created", "updated", "held"))


# --- The rate limit --------------------------------------------------------------------------------------------


class Pace:
    """Lets at most `limit` requests begin in any window, spread over it except for a few at the start. A request counts
    until a whole window after its answer: the service has counted it by then."""

    def __init__(self, limit: int, window_seconds: float) -> None:
        self._limit = max(int(limit * RATE_SHARE), 1)
        self._window_seconds = window_seconds
        self._rate = self._limit / window_seconds
        self._burst = max(self._limit / 10, 1.0)
        self._credit, self._credited_at = self._burst, _now()
        self._answered: deque[float] = deque()
        self._under_way = 0
        self._held_until = 0.0
        self._change = asyncio.Condition()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        async with self._change:
            while (wait := self._wait_seconds()) is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._change.wait(), wait or None)
            self._under_way += 1
            self._credit -= 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._answered.append(_now())
            async with self._change:
                self._change.notify()

    def hold(self, seconds: float) -> None:
        """Begins no request for this time, because the service has refused one: others use the key too."""
        self._held_until = max(self._held_until, _now() + seconds)

    def _wait_seconds(self) -> float | None:
        """The seconds to wait; None for now, and 0 for until another request is answered."""
        now = _now()
        if now < self._held_until:
            return self._held_until - now
        while self._answered and self._answered[0] <= now - self._window_seconds:
            self._answered.popleft()
        if self._under_way + len(self._answered) >= self._limit:
            return self._answered[0] + self._window_seconds - now if self._answered else 0.0
        self._credit = min(self._credit + (now - self._credited_at) * self._rate, self._burst)
        self._credited_at = now
        return None if self._credit >= 1 else (1 - self._credit) / self._rate


def _now() -> float:
    return asyncio.get_running_loop().time()


class _PacedClient(httpx.AsyncClient):
    """Makes every request of a key take its turn, repeated ones too."""

    pace: Pace | None = None

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        if self.pace is None:
            return await super().send(request, **options)
        async with self.pace.turn():
            answer = await super().send(request, **options)
        if answer.status_code == 429 and answer.headers.get("Retry-After", "").isdigit():
            self.pace.hold(float(answer.headers["Retry-After"]))
        return answer


def _window_seconds(text: str) -> float:
    """The seconds of a window such as `1m`."""
    number, unit = text[:-1], text[-1:]
    if not number.isdigit() or unit not in _UNITS:
        raise CannotPush(f"this service has a rate limit per {text!r}, which this release does not know: upgrade it")
    return int(number) * _UNITS[unit]


# --- The keys --------------------------------------------------------------------------------------------------


class Sender(NamedTuple):
    """A client with one of the keys."""

    client: AsyncFuelroute
    me: Me

    @property
    def pushes(self) -> int:
        """The number of pushes at a time that use up the key's limit."""
        rate = self.me.rate_limit.limit * RATE_SHARE / _window_seconds(self.me.rate_limit.window)
        return min(max(round(rate * ANSWER_SECONDS), 1), MOST_PUSHES_OF_A_KEY)


@asynccontextmanager
async def senders(url: str, keys: Sequence[str]) -> AsyncIterator[list[Sender]]:
    """A sender for each key. Raises CannotPush unless all may push, for one company and one environment."""
    async with AsyncExitStack() as life:
        found = [await _sender(life, url, key) for key in dict.fromkeys(keys)]
        owners = {(sender.me.company.id, sender.me.key.environment) for sender in found}
        if len(owners) > 1:
            raise CannotPush("the keys belong to several companies or environments: give those of one")
        yield found


async def _sender(life: AsyncExitStack, url: str, key: str) -> Sender:
    try:
        http = await life.enter_async_context(_PacedClient(limits=_CONNECTIONS))
        client = AsyncFuelroute(url, key, timeout_seconds=CALL_SECONDS, http=http)
        me = await AsyncFuelroute(url, key, timeout_seconds=_FIRST_SECONDS, http=http).me()
    except FuelrouteError as error:
        raise CannotPush(f"cannot use a key at {url}: {error}") from None
    if "routes:write" not in me.key.scopes:
        raise CannotPush(f"the key {me.key.prefix}... lacks the scope routes:write")
    http.pace = Pace(me.rate_limit.limit, _window_seconds(me.rate_limit.window))
    return Sender(client, me)


# --- The run ---------------------------------------------------------------------------------------------------


async def push_all(
    routes: Iterable[FileRoute],
    given: Sequence[Sender],
    *,
    concurrency: int | None = None,
    store: Callable[[Result], object],
) -> Counter[str]:
    """Pushes the routes and gives each result to `store`. Returns the number of each outcome. Raises CannotPush if the
    service is away for too long, or a key is no longer valid; the routes under way then have no result."""
    outcomes: Counter[str] = Counter()
    waiting: Iterator[FileRoute] = iter(routes)

    def finish(result: Result) -> None:
        store(result)
        outcomes[result.outcome] += 1

    async def work(sender: Sender) -> None:
        for one in waiting:  # each route goes to the task that asks first
            if one.body is None or one.fault:
                finish(Result(one.line, one.external_id, None, "refused", "", one.fault))
                await asyncio.sleep(0)
            else:
                finish(await _push(sender, one))

    places = [sender for sender in given for _ in range(sender.pushes)] if concurrency is None else []
    while concurrency is not None and len(places) < concurrency:
        places += given[: concurrency - len(places)]
    try:
        async with asyncio.TaskGroup() as tasks:
            for sender in places:
                tasks.create_task(work(sender))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return outcomes


async def _push(sender: Sender, one: FileRoute) -> Result:
    assert one.body is not None  # noqa: S101 (the caller has looked)
    try:
        pushed = await sender.client.push_route(one.body)
    except ApiError as error:
        if error.status in _ROUTES_FAULT:
            return Result(one.line, one.external_id, error.status, "refused", "", str(error))
        raise CannotPush(f"the run ends at line {one.line}: {error}") from None
    except FuelrouteError as error:
        raise CannotPush(f"the run ends at line {one.line}: {error}") from None
    status = {"created": 201, "updated": 200, "held": 202}[pushed.outcome]
    return Result(one.line, one.external_id, status, pushed.outcome, pushed.route.id, "")


# --- The file of results ---------------------------------------------------------------------------------------


def is_json_lines(path: Path) -> bool:
    return path.suffix.lower() in (".jsonl", ".ndjson")


@contextmanager
def results_file(path: Path, *, resume: bool) -> Iterator[Callable[[Result], None]]:
    """Stores results, each as soon as it comes, so that a crash loses none. Raises CannotPush for an existing file,
    unless `resume` adds to it, and for one that cannot be written."""
    try:
        with path.open("a" if resume else "x", encoding="utf-8", newline="") as file:
            if file.tell() == 0 and not is_json_lines(path):
                append_rows(file, [Result._fields])
            yield lambda result: _store(file, path, result)
    except FileExistsError:
        raise CannotPush(
            f"{path} is there already: --resume goes on with what it lacks, --results names another file"
        ) from None
    except OSError as error:
        raise CannotPush(f"cannot write {path}: {error.strerror}") from None


def _store(file: TextIO, path: Path, result: Result) -> None:
    line = io.StringIO(newline="")
    if is_json_lines(path):
        line.write(msgspec.json.encode(result._asdict()).decode() + "\n")
    else:
        append_rows(line, [result])
    file.write(line.getvalue())
    file.flush()


def accepted_before(path: Path) -> set[str]:
    """The `externalId` of each route that the file of results calls accepted. An unfinished result at its end, which a
    killed run may leave, is cut off. Raises CannotPush for a file that is no file of results."""
    accepted: set[str] = set()
    try:
        with path.open("r+b") as file:
            complete = 0
            for end, external_id, outcome in (_json_results if is_json_lines(path) else _csv_results)(file):
                complete = end
                if outcome in ACCEPTED:
                    accepted.add(external_id)
            file.truncate(complete)
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise CannotPush(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, csv.Error, msgspec.DecodeError):
        raise CannotPush(f"{path} is no file of results: name the one of the run that is resumed") from None
    return accepted


_LONGEST_RESULT = 1 << 20


def _check_length(line: bytes) -> None:
    """Check that the line ends. Raises ValueError for one that is longer than any result."""
    if len(line) == _LONGEST_RESULT and not line.endswith(b"\n"):
        raise ValueError(len(line))


def _json_results(file: BinaryIO) -> Iterator[tuple[int, str, str]]:
    """The end of each result, its `externalId` and its outcome."""
    end = 0
    while line := file.readline(_LONGEST_RESULT):
        _check_length(line)
        if line.endswith(b"\n"):
            end += len(line)
            result = msgspec.json.decode(line)
            yield end, result["external_id"], result["outcome"]


def _csv_results(file: BinaryIO) -> Iterator[tuple[int, str, str]]:
    """The end of each result, its `externalId` and its outcome. A text in quotes may have several lines."""
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        while line := file.readline(_LONGEST_RESULT):
            _check_length(line)
            if line.endswith(b"\n"):
                end += len(line)
                yield line.decode()

    rows = csv.reader(lines(), strict=True)
    if (heading := next(rows, None)) is not None and heading != list(Result._fields):
        raise ValueError(heading)
    yield end, "", ""
    while True:
        try:
            _, external_id, _, outcome, _, _ = next(rows)
        except StopIteration:
            return
        except csv.Error:
            if file.read(1):
                raise ValueError from None
            return  # the quote of the last text is missing
        yield end, armed(external_id), outcome
